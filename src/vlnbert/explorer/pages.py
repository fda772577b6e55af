"""The pages as HTML: the front page, and cards for browsers without JavaScript. All text from elsewhere is escaped."""

import json
from html import escape
from typing import Any
from urllib.parse import urlencode

from vlnbert.analysis.card import facts, outcome, still_card
from vlnbert.analysis.page import table
from vlnbert.evaluation.metrics import score_table
from vlnbert.explorer.explorer import Explorer
from vlnbert.explorer.requests import MOST_CHARACTERS, EpisodeQuery, Query

OFFERED = 12  # episodes that are linked where there is no JavaScript
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="/files/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/files/viewer.css">
<link rel="stylesheet" href="/files/explorer.css">
{scripts}</head>
"""
SCRIPTS = """<script src="/files/viewer.js" defer></script>
<script src="/files/explorer.js" type="module"></script>
<noscript><link rel="stylesheet" href="/files/without-script.css"></noscript>
"""
FRONT = """<body>
<header class="top"><h1>vlnbert explorer</h1><p>Watch an agent read, look around and decide where to go.</p></header>
<noscript><div class="plain">
<h2>Cards of some walks</h2>
<p>This browser runs no JavaScript. Each of these episodes is walked when you open it, and told on one still page.</p>
<ul>{links}</ul>
</div></noscript>
<main class="layout">
<section class="chooser" aria-labelledby="choose">
<h2 id="choose">What to walk</h2>
<fieldset>
<legend>Where the instruction comes from</legend>
<label class="segment"><input type="radio" name="source" id="from-data" checked><span>From the data</span></label>
<label class="segment"><input type="radio" name="source" id="from-words"><span>Your own words</span></label>
</fieldset>
<div class="fields">
<label>Task<select id="task"></select></label>
<label>Split<select id="split"></select></label>
<label class="wide">House<select id="house"></select></label>
</div>
<div id="choose-instruction">
<ul class="list" id="instructions" aria-label="Instructions of this house"></ul>
<div class="pager" id="pager" hidden>
<button type="button" id="before">Earlier</button>
<span id="pages"></span><button type="button" id="after">Later</button>
</div>
</div>
<form class="own" id="own-words" hidden>
<p class="hint">Click a start on the plan, or choose it from the list.</p>
<div class="picker" id="picker"></div>
<div class="floors" id="floors"></div>
<div class="pair">
<label>Start<select id="start"></select></label>
<label>Facing<select id="heading"></select></label>
</div>
<label>Instruction<textarea id="words" maxlength="{most}" placeholder="{example}"></textarea></label>
<button class="walk" id="walk">Walk</button>
</form>
</section>
<section class="stage" id="stage" aria-labelledby="title-of-walk">
<div class="bar">
<div><h2 id="title-of-walk">A walk</h2><p id="house-of-walk"></p></div>
<div class="tools">
<button type="button" id="copy" disabled>Copy link</button>
<button type="button" id="save-svg" disabled>Save SVG</button>
<button type="button" id="save-png" disabled>Save PNG</button>
</div>
</div>
<p class="message" id="message" aria-live="polite"></p>
<div class="viewers" id="viewers" data-agents="{agents}">{viewers}</div>
</section>
</main>
</body>
</html>
"""
VIEWER = """<section class="agent" aria-labelledby="agent-{number}">
<h3 id="agent-{number}">{name}</h3>
<p class="about">{about} <a id="card-{number}" href="/">Still card</a></p>
<div id="viewer-{number}"></div>
</section>"""


def front_page(explorer: Explorer) -> str:
    """The page; without JavaScript it links the cards of some episodes."""
    viewers = (
        VIEWER.format(number=number, name=escape(walker.name), about=escape(about))
        for number, (walker, about) in enumerate(zip(explorer.walkers, explorer.about, strict=True))
    )
    links, example = [], "Leave the bedroom and turn left. Stop beside the red chair."
    if first := explorer.first:
        index = explorer.catalogue.index(first["split"])
        rows = index.rows_in[index.scans[index.row_of[first["id"]]]][:OFFERED]
        example = index.episodes.texts[rows[-1]].strip()
        for row in rows:
            address = "/episode?" + urlencode({"split": first["split"], "id": index.episodes.ids[row]})
            links.append(f'<li><a href="{escape(address)}">{escape(index.episodes.texts[row])}</a></li>')
    body = FRONT.format(
        agents=len(explorer.walkers),
        viewers="".join(viewers),
        links="".join(links),
        most=MOST_CHARACTERS,
        example=escape(example),
    )
    return HEAD.format(title="vlnbert explorer", scripts=SCRIPTS) + body


def trouble_page(line: str) -> str:
    """A page with an error in one line."""
    said = f'<p class="bad">{escape(line[:1].upper() + line[1:])}</p><p><a href="/">Back to the explorer</a></p>'
    body = f'<body><main class="plain"><h1>This cannot be shown</h1>{said}</main></body></html>'
    return HEAD.format(title="vlnbert explorer", scripts="") + body


def card_page(explorer: Explorer, query: Query, answer: bytes) -> str:
    """An episode on a still page, with everything that the viewer shows, step by step."""
    record: dict[str, Any] = json.loads(answer)
    plan = json.loads(explorer.plan(record["scan"]))
    what = f"{query.split}, {query.id}" if isinstance(query, EpisodeQuery) else "own words"
    title = f"{record['agent']}: {what}"
    scores = table(score_table("Scores", {record["agent"]: record["scores"]})) if record["scores"] else ""
    head = f"<h1>{escape(title)}</h1>{outcome(record)}{facts(record)}<h2>What was read and walked</h2>"
    card = f'{head}<div class="still">{still_card(record, plan)}</div>'
    body = f'<body><main class="plain">{card}{scores}<p><a href="/">Back to the explorer</a></p></main></body></html>'
    return HEAD.format(title=escape(title), scripts="") + body
