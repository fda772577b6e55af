"""Verbs that look at agents: scores, single episodes, comparisons, reports, a page to explore, result files."""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.api.arguments import checked, spread
from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.evaluation.options import SplBy, WalkOptions
from vlnbert.progress import say
from vlnbert.runtime import require_within
from vlnbert.sources.writing import require_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vlnbert.analysis.card import Episode
    from vlnbert.api.comparing import AgentComparison
    from vlnbert.api.runs import Run
    from vlnbert.data.data import Data
    from vlnbert.evaluation.evaluate import Evaluations, ScoredFile
    from vlnbert.evaluation.results import Submission
    from vlnbert.navigator import Navigator
    from vlnbert.rollout.agents import Agent, AgentFactory
    from vlnbert.rollout.policy import Policy


@checked("agent", "features", "device")
@spread
def evaluate(
    agent: "Run | Navigator | Policy | Agent | AgentFactory | str | Path",
    data: "Data | str | Path | None" = None,
    split: str | Sequence[str] = (),
    *,
    options: WalkOptions,
    out: str | Path | None = None,
    bar: bool = True,
) -> "Evaluations":
    """Let an agent walk every episode of some splits, and score it: `vln.evaluate(run, split="r2r/val_unseen")`.

    Args:
        agent: A run, whose best weights walk; a navigator, or where one is (a folder, a hub name, a published agent's
            checkpoint); an agent of your own, which has `begin` and `act` as `vln.Agent` has; or one by name: random,
            stop, shortest, what a plugin registered, or the class in a file, my.py:MyAgent.
        data: Data folder with connectivity/ and the task's instructions; by default the one that a run was trained on.
        split: One or several, such as r2r/val_unseen; without a task, of what a run was trained for, else of r2r. By
            default val_seen and val_unseen. Test splits withhold their goals: they are walked, not scored.
            r2r/dev_unseen is made of the houses that the run kept out of its training.
        options: ...
        out: Folder for result files in the leaderboards' form, <task>_<split>_<agent>.json.
        bar: Show progress.
    """
    from vlnbert.api.runs import load_agent
    from vlnbert.evaluation.evaluate import Evaluations
    from vlnbert.evaluation.walker import Walker

    if out is not None:
        require_writable(Path(out))
    walker = Walker(load_agent(agent, options.checkpoint), data, split, options)
    evaluations = {name: walker.walk(name) for name in walker.episodes}
    result = Evaluations(walker.name, evaluations, walker.loaded.weights)
    for path in result.write(out) if out is not None else ():
        say(f"wrote {path}")
    if out is None and result.withheld:
        problem = f"{', '.join(result.withheld)}: the goals are withheld, so nothing was scored"
        say(f"{problem}; nothing was written either: {setting('out', 'DIR')} writes the result files")
    return result


@checked("agent", "features", "device")
@spread
def episode(
    agent: "Run | Navigator | Policy | Agent | AgentFactory | str | Path",
    id: str,
    data: "Data | str | Path | None" = None,
    split: str | None = None,
    *,
    options: WalkOptions,
    bar: bool = True,
) -> "Episode":
    """Let an agent walk one episode, in the company that it has in an evaluation: every number is the same there.

    `print(vln.episode(run, "12_0"))` is a card: the steps with all choices, how sure it was, what it attended to.

    Args:
        agent: An agent, as `vln.evaluate` takes it; or a result file of any agent, which needs data and split.
        id: The episode's id, such as 12_0: the instr_id of result files.
        data: Data folder; by default the one that a run was trained on.
        split: The split that it is in, such as val_unseen, with its task where that is not the run's, or r2r; of a
            result file always. By default the one that chooses a run's best weights, else r2r/val_unseen.
        options: ...
        bar: Show progress.
    """
    from vlnbert.analysis.card import Episode
    from vlnbert.api.runs import as_run, chosen_split, is_results, load_agent, require_data
    from vlnbert.data.data import open_data
    from vlnbert.evaluation.evaluate import evaluate_file
    from vlnbert.evaluation.recording import Recorder
    from vlnbert.evaluation.results import guess_split
    from vlnbert.evaluation.walker import Walker
    from vlnbert.tasks.splits import task_and_split

    agent = as_run(agent)
    name = chosen_split(agent, split)
    opened = open_data(require_data(agent, data), device=options.device)
    if is_results(agent):
        path = Path(str(agent))
        evaluation = evaluate_file(path, opened.episodes(name), opened.world, opened.folder)
        if id not in evaluation.episodes.ids:
            raise UnknownNameError("episode", id, evaluation.episodes.ids, str(path))
        return Episode(Recorder(opened, path.stem).episode(evaluation, evaluation.episodes.row(id)), opened)
    walker = Walker(load_agent(agent, options.checkpoint), opened, name, options)
    if id not in (known := walker.episodes[name].ids):
        task = task_and_split(name)[0]
        home = guess_split({id}, task, walker.data.folder)
        # The same id in another task is another episode.
        if home and home[0] == task:
            other = setting("split", "/".join(home))
            raise UsageError(f"no episode '{id}' in {name}; it is in another split: {other}")
        raise UnknownNameError("episode", id, known, name)
    return Episode(walker.recorder.episode(walker.walk(name, record=True, only=[id]), 0), opened)


@checked("agents", "features", "device")
@spread
def compare(
    agents: "Sequence[Run | Navigator | Policy | Agent | AgentFactory | str | Path]",
    data: "Data | str | Path | None" = None,
    split: str | None = None,
    *,
    options: WalkOptions,
    bar: bool = True,
) -> "AgentComparison":
    """Compare agents on one split: settings that differ, scores side by side, and the episodes where they part.

    All are held against the first.

    Args:
        agents: Two or more, as `vln.evaluate` takes them, or result files, mixed as you like.
        data: Data folder; by default the one that the first run was trained on.
        split: The split to walk, such as val_unseen, with its task where that is not the runs', or r2r; of result files
            alone always. By default the one that chooses the runs' best weights, else r2r/val_unseen.
        options: ...
        bar: Show progress.
    """
    from vlnbert.api.comparing import compare_agents

    return compare_agents(agents, data, split, options)


@checked("agents", "began")
def explore(
    *agents: "Run | Navigator | Policy | Agent | AgentFactory | str | Path",
    data: "Data | str | Path | None" = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    device: str | None = None,
    threads: int | None = None,
    began: Callable[[str], object] | None = None,
    bar: bool = True,
) -> None:
    """Serve a page on which agents can be watched while they read and walk; it ends when it is interrupted.

    Visitors choose an episode, or click a start on the plan and type an instruction of their own. Without an agent, a
    tiny one that ships with vlnbert walks in a generated house. Needs: pip install 'vlnbert[explore]'.

    Args:
        agents: One or two, as `vln.evaluate` takes them: runs, navigators, baselines by name.
        data: Data folder; by default the one that a run was trained on, or a generated house.
        host: The address to serve at. Beyond 127.0.0.1 everybody who can reach this machine can visit.
        port: Where to listen; 0 takes any port that is free.
        device: Where to walk, such as cpu or cuda; by default that of the data, which is cpu for a folder.
        threads: CPU threads; by default torch's choice, and one for the agent that ships.
        began: Called with the page's address once it can be visited.
        bar: Say where the page is.
    """
    require_within(port=(port, 0, 65535))
    if not (find_spec("starlette") and find_spec("uvicorn")):
        raise UsageError("the page needs a server; install it with: pip install 'vlnbert[explore]'")
    from vlnbert.api.exploring import open_explorer
    from vlnbert.explorer.app import make_app
    from vlnbert.explorer.guard import LOOPBACK, is_loopback
    from vlnbert.explorer.serving import address, listen, serve
    from vlnbert.explorer.walk_queue import WalkQueue

    # A port in use is reported before anything is opened.
    with listen(host, port) as listening:
        explorer, page = open_explorer(agents, data, device=device, threads=threads), address(listening)
        if not is_loopback(host):
            say(f"warning: everybody who can reach {host} can visit this page and let agents walk here")

        def announce() -> None:
            say(f"explore at {page} (Ctrl-C ends it)")
            if began is not None:
                began(page)

        with closing(WalkQueue(explorer.walk)) as queue:
            hosts = LOOPBACK | {host} if is_loopback(host) else None
            serve(make_app(explorer, queue, hosts), listening, announce)


@checked()
def report(
    run: "Run | str | Path",
    out: str | Path = "report.html",
    data: "Data | str | Path | None" = None,
    *,
    split: str | None = None,
    episodes: int = 6,
    seed: int = 0,
    title: str | None = None,
    context: str | None = None,
    bar: bool = True,
) -> Path:
    """Write what a run learned as one HTML file, to look at, to print or to send.

    It says what was asked, how well it went beside baselines and, on published splits, the paper; how it was learned,
    where it went wrong, and shows some episodes step by step.

    Args:
        run: The run, or its folder.
        out: The file to write.
        data: Data folder; by default the one that the run was trained on.
        split: The validation split to walk, such as val_unseen; by default the one that chooses the best weights.
        episodes: How many to show, of the best, the typical and the worst.
        seed: Of the random baseline.
        title: The report's heading; by default it names the run.
        context: What it is about, in a sentence or two; by default what the run's folder says.
        bar: Show progress.
    """
    from vlnbert.api.reporting import compare_with_baselines, write_run_report
    from vlnbert.api.runs import open_run

    require_within(episodes=(episodes, 1, 1000))
    run = open_run(run)
    compared, walker = compare_with_baselines(run, data, split=split, seed=seed)
    return write_run_report(run, compared, walker, out, episodes=episodes, title=title, context=context)


@checked()
def curves(run: "Run | str | Path", out: str | Path | None = None, *, split: str | None = None) -> "Figure":
    """Draw the losses of a run and its scores on a validation split, so far.

    Args:
        run: The run, or its folder; it may still be learning.
        out: The picture to write, by its ending .svg, .png or .pdf; none by default.
        split: The validation split to draw, such as val_unseen; by default the one that chooses the best weights.
    """
    from vlnbert.analysis.figures import draw_curves, save_figure
    from vlnbert.api.reporting import validated
    from vlnbert.api.runs import open_run
    from vlnbert.plugins import load_recorded

    run = open_run(run)
    # A task's own metrics are drawn where its plugin may be loaded.
    with suppress(UsageError):
        load_recorded(run.record.plugins)
    figure = draw_curves(run.log, validated(run, split), {})
    if out is not None:
        save_figure(figure, Path(out))
    return figure


@checked()
def score(
    file: str | Path,
    data: "Data | str | Path",
    split: str,
    *,
    spl_by: SplBy = "shortest",
    allow_missing: bool = False,
) -> "ScoredFile":
    """Score a result file of any agent against a split.

    Reads every dialect in use: trajectories with angles or of viewpoints alone, nested hops, predObjId or pred_objid,
    a list or an object keyed by instruction. The result prints as a table; `scores` are those of each episode,
    `summary` their means, and `notes` say what was converted.

    Args:
        file: Results, commonly a JSON list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}; may
            be a pipe, such as /dev/stdin.
        data: Data folder with connectivity/ and the task's instructions.
        split: The split that the results are of, such as r2r/val_unseen. Test splits withhold their goals.
        spl_by: SPL by the shortest path to the goal (the leaderboards) or by the reference path's length (some logs).
        allow_missing: Score the instructions that are there when the file lacks some of the split.
    """
    from vlnbert.data.data import open_data
    from vlnbert.evaluation.evaluate import score_file
    from vlnbert.tasks.episodes import require_goals
    from vlnbert.tasks.splits import task_and_split
    from vlnbert.tasks.task import TASKS

    opened = open_data(data)
    task, name = task_and_split(split)
    path = TASKS[task].file(opened.folder, name)
    episodes = opened.episodes(split)
    require_goals(episodes, path)
    return score_file(
        Path(file), episodes, opened.world, spl_by=spl_by, allow_missing=allow_missing, folder=opened.folder
    )


@checked()
def submit(file: str | Path, out: str | Path, data: "Data | str | Path", split: str) -> "Submission":
    """Check a result file of any dialect and write it as the R2R and REVERIE leaderboards take it.

    The results must be of the whole split, begin at its starts and walk along edges of the graph; angles that the file
    leaves out are filled in. Nothing is written unless all is well.

    Args:
        file: Results in any dialect that `vln.score` reads.
        out: Where to write the submission; an older file there is replaced.
        data: Data folder with connectivity/ and the task's instructions.
        split: The split that the leaderboard asks for, such as r2r/test.
    """
    from vlnbert.data.data import open_data
    from vlnbert.evaluation.results import Submission, write_submission
    from vlnbert.tasks.episodes import bind
    from vlnbert.tasks.splits import task_and_split
    from vlnbert.tasks.task import TASKS

    opened, (task, name) = open_data(data), task_and_split(split)
    path = TASKS[task].file(opened.folder, name)
    # Where targets are visible is the leaderboard's business, so the box files are not read.
    episodes = bind(path, TASKS[task].read(path), opened.world, task=task, split=name)
    notes = write_submission(Path(file), Path(out), episodes, opened.world, folder=opened.folder)
    return Submission(Path(out), len(episodes), notes)
