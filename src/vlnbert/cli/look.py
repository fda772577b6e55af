"""Verbs to look at agents: scores, episodes, comparisons, reports, a page, result files, instructions."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlnbert.cli.output import print_json, screen, show, tell
from vlnbert.cli.parser import command
from vlnbert.errors import UsageError


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
        data: Folder with connectivity/ and the task's instructions; by default the one that a run was trained on.
        agent: Instead of a navigator: random (R2R's: a random heading, then five steps forward), random-reverie
            (REVERIE's: stays, or takes nine steps ahead), stop (stays where it starts), shortest (knows the goal: what
            the graph allows), follow (knows the described path), what a plugin registered (vlnbert plugins lists
            all), or the class in a file or module, my.py:MyAgent.
        task: r2r, reverie, r4r or a plugin's; by default what a run was trained for, else r2r. The baseline agents name
            no object.
        splits: The splits to walk, with or without their task. Test splits withhold their goals: they are walked and
            written, not scored. dev_unseen is made of the houses that a run kept out of its training.
        device: Where the tensors are, such as cpu or cuda.
        out: Folder for result files, <task>_<split>_<agent>.json, in the leaderboards' form.
        json: Print one JSON object, keyed by split, instead of a table.
        per_episode: Print that JSON object of single episodes: by split and id, how each ended and its scores.
    """
    from vlnbert.api.agents import as_run, usual_task
    from vlnbert.rollout.agents import find_agent
    from vlnbert.tasks.splits import full_name

    if (run is None) == (agent is None):
        raise UsageError("name a navigator or an --agent, and not both; for example --agent random")
    if not splits:
        raise UsageError("no split to walk; for example --splits val_unseen")
    chosen = as_run(run) if run else find_agent(agent or "")
    usual = task or usual_task(chosen)
    names = [split_of_task(split, task) if task else full_name(split, usual) for split in splits]
    found = verb(chosen, options.pop("data", None), names, **options)
    if json or per_episode:
        print(found.to_json(per_episode=per_episode))
    elif found.scores:
        show(found.table())


@command(
    "show",
    "vlnbert.api.looking:episode",
    ["agent"],
    metavars={"agent": "RUN", "episode": "ID", "out": "FILE"},
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
        split: The split that it is in, such as val_unseen, with its task where that is not the run's, or r2r; of a
            result file always. By default the one that chooses a run's best weights, else r2r/val_unseen.
        data: The data folder; by default the one that a run was trained on.
        device: Where the tensors are, such as cpu or cuda.
        out: Write the card to a file instead, by its ending: .html (a page), .svg, .png or .pdf (the floor plan).
        json: Print the record as one JSON object instead of a card.
    """
    from vlnbert.analysis.card import COLOURS, head_lines, require_card_name, shaded_instruction, tables

    if out is not None:
        require_card_name(out)
    found = verb(id=episode, **options)
    if out is not None:
        tell(str(found.write(out)), aside=json)  # one that reads JSON gets nothing else
    if json:
        print(found.to_json())
    elif out is None:
        console, record = screen(), found.record
        title, outcome = head_lines(record)
        console.print(title, style="bold")
        console.print(outcome, style=COLOURS.get(record.verdict, ""))
        console.print()
        console.print(shaded_instruction(record), soft_wrap=not console.is_terminal)
        for table in tables(record):
            console.print()
            show(table)


@command("compare", "vlnbert.api.looking:compare", ["runs"], metavars={"runs": "RUN"}, without=("agents",))
def compare(
    verb: Callable[..., Any], runs: tuple[str, ...], episodes: int = 10, json: bool = False, **options: Any
) -> None:
    """Compare agents on one split.

    Compare agents on one split: settings that differ, scores side by side, and the episodes where they part.

    All are held against the first. Look at an episode with vlnbert show.

    Example: vlnbert compare runs/a runs/b

    Example: vlnbert compare runs/a random results.json --split r2r/val_unseen --data data

    Args:
        runs: Two or more of: runs' folders, navigators (folders or hub names), agents by name (random, shortest,
            my.py:MyAgent), result files (FILE.json).
        data: The data folder; by default the one that the first run was trained on.
        split: The split to walk, such as val_unseen, with its task where that is not the runs', or r2r; of result files
            alone always. By default the one that chooses the runs' best weights, else r2r/val_unseen.
        episodes: How many of the episodes in which they part to list.
        device: Where the tensors are, such as cpu or cuda.
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


@command(
    "report", "vlnbert.api.looking:report", ["run"], metavars={"out": "FILE"}, without=("seed", "title", "context")
)
def report(verb: Callable[..., Any], run: Path, out: Path | None = None, **options: Any) -> None:
    """Write what a run learned as one HTML file.

    Example: vlnbert report runs/r2r-open --data data

    Args:
        run: The run's folder.
        out: The file to write; by default report.html in the run's folder.
        data: The data folder, if it lies elsewhere now.
    """
    print(verb(run, out or run / "report.html", **options))


@command("explore", "vlnbert.api.looking:explore", ["runs"], metavars={"runs": "RUN"})
def explore(verb: Callable[..., Any], runs: tuple[str, ...] = (), open: bool = False, **options: Any) -> None:
    """Watch agents read and walk, on a page in a browser.

    Serve a page on which agents can be watched while they read and walk: why did it go there?

    Choose an episode, or click a start on the plan and type an instruction of your own. Without a run, a tiny agent
    that ships with vlnbert walks in a generated house. Ctrl-C ends it. Needs: pip install 'vlnbert[explore]'.

    Example: vlnbert explore --open

    Example: vlnbert explore runs/r2r-open --data data

    Example: vlnbert explore runs/first runs/second

    Example: vlnbert explore random --data data

    Args:
        runs: One or two agents, side by side: a run's folder, any navigator, or a baseline by name (random, stop,
            shortest, follow).
        open: Open the page in a browser.
        device: Where to walk, such as cpu or cuda.
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

    Score a result file of any agent against a split.

    Reads every dialect in use: trajectories with angles or of viewpoints alone, nested hops, predObjId or pred_objid,
    a list or an object keyed by instruction. What was converted is said on standard error.

    Example: vlnbert score results.json --task r2r --split val_unseen --data data

    Args:
        file: Results, commonly a JSON list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}; may
            be a pipe, such as /dev/stdin.
        task: What the agent was asked: r2r (go there), reverie (go there and name the object), r4r (follow the path) or
            a plugin's.
        split: The split that the results are of, such as val_seen or val_unseen. Test splits withhold their goals.
        data: Folder with connectivity/ and the task's instructions.
        json: Print one JSON object instead of a table: rates as fractions, tl and ne in metres.
    """
    scored = verb(file, data, split_of_task(split, task), **options)
    for line in scored.notes.lines():
        tell(f"{file}: {line}", aside=True)
    if json:
        print_json(scored.summary)
    else:
        show(scored.table())


@command("submit", "vlnbert.api.looking:submit", ["file", "out"], metavars={"out": "OUT"})
def submit(verb: Callable[..., Any], file: Path, out: Path, task: str, data: Path, split: str = "test") -> None:
    """Write a result file for a leaderboard.

    Check a result file of any dialect and write it as the R2R and REVERIE leaderboards take it.

    The results must be of the whole split, begin at its starts and walk along edges of the graph; angles that the file
    leaves out are filled in. Nothing is written unless all is well.

    Example: vlnbert submit results.json submission.json --task r2r --data data

    Args:
        file: Results in any dialect that `vlnbert score` reads.
        out: Where to write the submission; an older file there is replaced.
        task: Whose leaderboard, such as r2r or reverie.
        data: Folder with connectivity/ and the task's instructions.
        split: The split that the leaderboard asks for.
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
    metavars={"speaker": "RUN", "out": "FILE"},
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
        data: The data folder; by default the one that a run was trained on.
        split: The split whose paths to describe, each once, such as val_unseen, with its task where that is not the
            run's, or r2r. dev_unseen is made of the houses that a run kept out of its training.
        path: Instead of a split, one path or several by their viewpoints, one step apart: scan:viewpoint,viewpoint,...
        device: Where the tensors are, such as cpu or cuda.
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
        show(replace(found.table(), note=""))  # it was said aside when it was made


def split_of_task(split: str, task: str) -> str:
    """A split by its full name; one that names another task than --task is refused."""
    from vlnbert.tasks.splits import full_name, task_and_split

    name = full_name(split, task)
    if task_and_split(name)[0] != task:
        raise UsageError(f"{split} is no split of --task {task}; name the task once")
    return name
