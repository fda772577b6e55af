"""Verbs to look at agents: scores, episodes, comparisons, reports, a page, result files, instructions."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlnbert.cli.output import answer, show, tell
from vlnbert.cli.parser import command
from vlnbert.errors import UsageError, printable_text
from vlnbert.tables import WIDE


@command(
    "evaluate",
    "vlnbert.api.looking:evaluate",
    ["run"],
    metavars={"agent": "NAME", "out": "DIR"},
    without=("split",),
)
def evaluate(
    verb: Callable[..., Any],
    run: str | None = None,
    agent: str | None = None,
    task: str | None = None,
    splits: tuple[str, ...] = ("val_seen", "val_unseen"),
    json: bool = False,
    per_episode: bool = False,
    **options: Any,
) -> None:
    """Score an agent on some splits.

    Let a navigator, a baseline or an agent of your own walk every episode of some splits, and print its scores.

    What SR, SPL and the others mean stands in docs/glossary.md; vlnbert score says it beside each.

    Example: vlnbert evaluate --agent random --task r2r --splits val_unseen --data data
    Example: vlnbert evaluate runs/r2r-open --splits val_unseen
    Example: vlnbert evaluate runs/r2r-open --data data --splits val_unseen --checkpoint last
    Example: vlnbert evaluate my-navigator --data data --features.views data/features/resnet.hdf5
    Example: vlnbert evaluate --agent examples/own_agent.py:MyAgent --data data

    Args:
        run: A run's folder, whose best weights walk; or any navigator: its folder, a hub name, or a published agent's
            checkpoint.
        agent: Instead of a navigator: random (R2R's: a random heading, then five steps forward), random-reverie
            (REVERIE's: stays, or takes nine steps ahead), stop (stays where it starts), shortest (knows the goal: what
            the graph allows), follow (knows the described path), what a plugin registered (vlnbert plugins lists
            all), or the class in a file or module, my.py:MyAgent.
        task: r2r, reverie, r4r or a plugin's; by default what a run was trained for, else r2r. The baseline agents name
            no object.
        splits: The splits to walk, with or without their task. Test splits withhold their goals: they are walked and
            written, not scored. dev_unseen is made of the houses that a run kept out of its training.
        json: Print one JSON object, keyed by split, instead of a table.
        per_episode: Print that JSON object of single episodes: by split and id, how each ended and its scores.
    """
    from vlnbert.rollout.agents import find_agent

    if (run is None) == (agent is None):
        raise UsageError("name a navigator or an --agent, and not both; for example --agent random")
    if not splits:
        raise UsageError("no split to walk; for example --splits val_unseen")
    names = [split_of_task(split, task) for split in splits] if task else splits
    found = verb(run or find_agent(agent or ""), options.pop("data", None), names, **options)
    if json or per_episode:
        print(found.to_json(per_episode=per_episode))
    elif found.scores:
        show(found.table())


@command(
    "show",
    "vlnbert.api.looking:episode",
    ["agent"],
    metavars={"agent": "RUN", "episode": "ID"},
    without=("id",),
)
def show_episode(
    verb: Callable[..., Any], episode: str, out: Path | None = None, json: bool = False, **options: Any
) -> None:
    """Show what an agent did in one episode, and why.

    Show one episode: what was asked, what the agent chose at each step and how sure it was, and what became of it.

    In a terminal, words are shaded by the attention that they got over all steps. Every number is that of vlnbert
    evaluate. An agent that has no probabilities, and a result file, show none.

    Example: vlnbert show runs/r2r-open --episode 12_0
    Example: vlnbert show runs/r2r-open --episode 12_0 --out card.html
    Example: vlnbert show random --episode 12_0 --split r2r/val_unseen --data data
    Example: vlnbert show results.json --episode 12_0 --split r2r/val_unseen --data data

    Args:
        agent: A run's folder, a navigator (its folder or a hub name), an agent by name (random, shortest,
            my.py:MyAgent), or a result file, FILE.json.
        episode: The episode's id: the instr_id of result files, such as 12_0.
        out: Write the card to a file instead, by its ending: .html (a page), .svg, .png or .pdf (the floor plan).
        json: Print the record as one JSON object instead of a card.
    """
    from rich.console import Console

    from vlnbert.analysis.card import COLOURS, head_lines, require_card_name, shaded_instruction, tables

    if out is not None:
        require_card_name(out)
    found = verb(id=episode, **options)
    if out is not None:
        # With --json, standard output holds nothing else.
        tell(str(found.write(out)), aside=json)
    if json:
        print(found.to_json())
    elif out is None:
        console, record = Console(markup=False, highlight=False), found.record
        console.width = console.width if console.is_terminal else WIDE
        title, outcome = map(printable_text, head_lines(record))
        console.print(title, style="bold")
        console.print(outcome, style=COLOURS.get(record.verdict, ""))
        console.print()
        console.print(shaded_instruction(record), soft_wrap=not console.is_terminal)
        for table in tables(record):
            console.print()
            show(table)


@command("compare", "vlnbert.api.looking:compare", ["runs"], without=("agents",))
def compare(
    verb: Callable[..., Any], runs: tuple[str, ...], episodes: int = 10, json: bool = False, **options: Any
) -> None:
    """Compare agents on one split.

    Example: vlnbert compare runs/a runs/b
    Example: vlnbert compare runs/a random results.json --split r2r/val_unseen --data data

    Args:
        runs: Two or more of: runs' folders, navigators (folders or hub names), agents by name (random, shortest,
            my.py:MyAgent), result files (FILE.json).
        episodes: How many of the episodes in which they part to list.
        json: Print one JSON object instead of tables, with every episode in which they part.
    """
    from vlnbert.runtime import require_within

    require_within(episodes=(episodes, 0, 1_000_000))
    found = verb(runs, **options)
    if json:
        print(found.to_json())
        return
    for number, table in enumerate(found.tables(episodes)):
        if number:
            print()
        show(table)


@command("report", "vlnbert.api.looking:report", ["run"], without=("seed", "title", "context"))
def report(verb: Callable[..., Any], run: Path, out: Path | None = None, **options: Any) -> None:
    """Write what a run learned as one HTML file.

    Example: vlnbert report runs/r2r-open --data data

    Args:
        run: The run's folder.
        out: The file to write; by default report.html in the run's folder.
    """
    print(verb(run, out or run / "report.html", **options))


@command("explore", "vlnbert.api.looking:explore", ["runs"])
def explore(verb: Callable[..., Any], runs: tuple[str, ...] = (), open: bool = False, **options: Any) -> None:
    """Watch agents read and walk, on a page in a browser.

    Example: vlnbert explore --open
    Example: vlnbert explore runs/r2r-open --data data
    Example: vlnbert explore runs/first runs/second
    Example: vlnbert explore random --data data

    Args:
        runs: One or two agents, side by side: a run's folder, any navigator, or a baseline by name (random, stop,
            shortest, follow).
        open: Open the page in a browser.
    """
    import webbrowser

    try:
        verb(*runs, began=webbrowser.open if open else None, **options)
    except KeyboardInterrupt:
        print("the explorer has ended", file=sys.stderr)


@command("score", "vlnbert.api.looking:score", ["file"])
def score(
    verb: Callable[..., Any], file: Path, task: str, split: str, data: Path, json: bool = False, **options: Any
) -> None:
    """Score a result file of any agent.

    Example: vlnbert score results.json --task r2r --split val_unseen --data data

    Args:
        task: What the agent was asked: r2r (go there), reverie (go there and name the object), r4r (follow the path) or
            a plugin's.
        json: Print one JSON object instead of a table: rates as fractions, tl and ne in metres.
    """
    scored = verb(file, data, split_of_task(split, task), **options)
    for line in scored.notes.lines():
        tell(f"{file}: {line}", aside=True)
    answer(scored.summary, scored.table(), json)


@command("submit", "vlnbert.api.looking:submit", ["file", "out"], metavars={"out": "OUT"})
def submit(verb: Callable[..., Any], file: Path, out: Path, task: str, data: Path, split: str = "test") -> None:
    """Write a result file for a leaderboard.

    Example: vlnbert submit results.json submission.json --task r2r --data data

    Args:
        file: Results in any dialect that `vlnbert score` reads.
        task: Whose leaderboard, such as r2r or reverie.
    """
    name = split_of_task(split, task)
    done = verb(file, out, data, name)
    for line in done.notes.lines():
        tell(f"{file}: {line}", aside=True)
    tell(f"{out}: {done.results:,} results of {name.replace('/', ' ')}")


@command(
    "speak",
    "vlnbert.api.speaking:speak",
    ["speaker"],
    without=("paths",),
)
def speak(
    verb: Callable[..., Any],
    split: str | None = None,
    path: tuple[str, ...] = (),
    score: bool = False,
    navigator: str | None = None,
    out: Path | None = None,
    json: bool = False,
    **options: Any,
) -> None:
    """Let a speaker describe paths, or score it.

    It writes an instruction for each path of a split, or for any path. Empty ones, and those without an end, are
    written again by nucleus sampling, and left out otherwise, by name.

    With --score it is scored instead: BLEU-4 and CIDEr against people's instructions, the perplexity of those and, with
    --navigator, how well an agent follows the speaker, beside how well it follows people on the same paths.

    Example: vlnbert train speaker-open --data data --out runs/speaker
    Example: vlnbert speak runs/speaker --split r2r/val_unseen
    Example: vlnbert speak runs/speaker --split r2r/val_unseen --decoding nucleus --seed 1 --out generated.json
    Example: vlnbert speak runs/speaker --path scan:viewpoint,viewpoint,viewpoint
    Example: vlnbert speak runs/speaker --split r2r/val_unseen --score --navigator runs/people

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker's folder or hub name.
        split: The split whose paths to describe, each once, such as val_unseen, with its task where that is not the
            run's, or r2r. dev_unseen is made of the houses that a run kept out of its training.
        path: Instead of a split, one path or several by their viewpoints, one step apart: scan:viewpoint,viewpoint,...
        score: Print scores of the instructions instead of them.
        navigator: With --score: a run, navigator or agent that follows; best one that learned from people alone.
        out: A file to write, a JSON list in R2R's form, instead of printing.
        json: Print that list, or the scores as one object, instead of a table.
    """
    if navigator is not None and not score:
        raise UsageError("--navigator follows to score a speaker; say so: --score")
    if score:
        from vlnbert.api.speaking import score_speaker

        if split is None or path or out is not None:
            problem = "--score scores a split, and prints"
            raise UsageError(f"{problem}; name a split and no paths or file: --split r2r/val_unseen")
        scores = score_speaker(split=split, navigator=navigator, **options)
        if json:
            print(scores.to_json())
        else:
            show(scores.table())
        return
    found = verb(split=split, paths=path or None, **options)
    if out is not None:
        print(f"wrote {found.write(out)}: {len(found):,} instructions")
    elif json:
        print(found.to_json())
    else:
        # The note was printed while the instructions were written.
        show(replace(found.table(), note=""))


def split_of_task(split: str, task: str) -> str:
    """A split by its full name; one that names another task than --task is refused."""
    from vlnbert.tasks.splits import full_name, task_and_split

    name = full_name(split, task)
    if task_and_split(name)[0] != task:
        raise UsageError(f"{split} is no split of --task {task}; name the task once")
    return name
