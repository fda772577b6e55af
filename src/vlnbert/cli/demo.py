"""`vlnbert demo`: a house, agents that walk it, and a report to look at."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vlnbert.analysis.report import EpisodeCard
    from vlnbert.evaluation.evaluate import Evaluation
    from vlnbert.world import World

SPLIT = "val_unseen"
SHOWN = 3  # episodes drawn in the report


def demo(out: Path = Path("demo"), seed: int = 0, scans: int = 24) -> None:
    """Make a house, let the baseline agents walk its unseen rooms, and write a report.

    Needs no data and no network. Open the report in a browser when it is done.

    Example: vlnbert demo --out demo

    Args:
        out: Folder for the house and report.html. A house that is there from an earlier demo serves again.
        seed: Chooses the house.
        scans: How many houses to make.
    """
    from vlnbert.analysis.report import Report, Table, write_report
    from vlnbert.cli.tables import print_scores, score_rows
    from vlnbert.sources.house import generate

    folder = out / f"house-{seed}-{scans}"
    if not folder.exists():
        generate(folder, seed=seed, scans=scans)
    world, evaluations = _evaluate(folder, seed)
    tables = []
    for task, agents in evaluations.items():
        summaries = {name: result.scores.summary() for name, result in agents.items() if result.scores is not None}
        print_scores(f"{task} {SPLIT}, generated house {seed}", summaries)
        headings, rows = score_rows(summaries)
        tables.append(Table(f"{task.upper()}, unseen houses", ("agent", *headings), tuple(map(tuple, rows))))
    context = (
        f"{scans} generated houses (seed {seed}); the episodes are of houses kept apart from training. The random "
        "agent picks a heading and walks five steps; the shortest agent knows the goal: between the two lies what an "
        "agent can gain by looking and reading."
    )
    cards = _cards(world, evaluations["r2r"]["random"])
    write_report(out / "report.html", Report("vlnbert demo", context, tuple(tables), (), cards))
    print(f"open {out / 'report.html'} in a browser")


def _evaluate(folder: Path, seed: int) -> tuple["World", dict[str, dict[str, "Evaluation"]]]:
    """Every baseline agent on the unseen houses, for both tasks."""
    from vlnbert.environment.environment import Environment
    from vlnbert.evaluation.evaluate import evaluate_agent
    from vlnbert.rollout.baselines import BASELINES, baseline
    from vlnbert.sources.layout import TASKS, open_folder
    from vlnbert.tasks.episodes import load_episodes
    from vlnbert.world import open_world

    data = open_folder(folder)
    world = open_world(data)
    environment = Environment(world)
    splits = {task: load_episodes(data, world, task, SPLIT) for task in TASKS}
    return world, {
        task: {name: evaluate_agent(environment, baseline(name, world, seed), episodes) for name in BASELINES}
        for task, episodes in splits.items()
    }


def _cards(world: "World", evaluation: "Evaluation") -> tuple["EpisodeCard", ...]:
    """Some episodes, evenly spread over the split, with the walk beside the path that was described."""
    from vlnbert.analysis import EpisodeCard, draw_episode, figure_svg

    episodes, walk, scores = evaluation.episodes, evaluation.walk, evaluation.scores
    cards = []
    for row in range(0, len(episodes), -(-len(episodes) // SHOWN)):
        walked = walk.viewpoint[row, : walk.length[row]].tolist()
        figure = draw_episode(world, walked, episodes.path[row, : episodes.path_length[row]].tolist())
        succeeded = scores is not None and bool(scores.sr[row])
        outcome = f"stopped {scores.ne[row]:.1f} m from the goal after {len(walked) - 1} steps" if scores else ""
        title = f"Episode {episodes.ids[row]}, random agent"
        cards.append(EpisodeCard(title, episodes.texts[row], outcome, figure_svg(figure), succeeded))
    return tuple(cards)
