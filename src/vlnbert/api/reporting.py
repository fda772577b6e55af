"""Pictures of a run: its curves, and a report as one HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from vlnbert.analysis import Drawing, EpisodeCard, Report, attended_words, draw_episode, figure_svg, write_report
from vlnbert.analysis.curves import draw_curves, save_figure
from vlnbert.analysis.recording import Recorder
from vlnbert.api.arguments import checked
from vlnbert.api.preparing import prepare
from vlnbert.api.runs import Run, open_run
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UnknownNameError
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.tables import Summary, score_table
from vlnbert.progress import quiet
from vlnbert.registry import load_recorded
from vlnbert.runtime import require_within
from vlnbert.tables import Table

EPISODES = 3  # drawn in a report, unless told otherwise
CONTEXT = (
    "{run} after {updates:,} updates of the preset {preset}. The random agent picks a heading and walks five steps; "
    "the shortest agent knows the goal. Below, words are tinted by the attention that the navigator paid them before "
    "each choice."
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several agents on one split."""

    data: Data
    split: str
    evaluations: Mapping[str, Evaluation]  # by agent
    recorder: Recorder  # of what the navigator walked

    @property
    def scores(self) -> dict[str, Summary]:
        """By agent: rates as fractions, TL and NE in metres."""
        known = {agent: result.scores for agent, result in self.evaluations.items()}
        return {agent: scores.summary() for agent, scores in known.items() if scores is not None}

    def table(self) -> Table:
        return score_table(self.split, self.scores)


@checked()
def curves(run: Run | str | Path, out: str | Path | None = None, *, split: str | None = None) -> Figure:
    """Draw the losses of a run and its scores on a validation split, so far.

    Args:
        run: The run, or its folder; it may still be learning.
        out: The picture to write, by its ending .svg, .png or .pdf; none by default.
        split: The validation split to draw, as task/split; by default the one that chooses the best weights.
    """
    run = open_run(run)
    figure = draw_curves(run.log, _validated(run, split), {})
    if out is not None:
        save_figure(figure, Path(out))
    return figure


@checked()
def report(
    run: Run | str | Path,
    out: str | Path = "report.html",
    data: Data | str | Path | None = None,
    *,
    split: str | None = None,
    episodes: int = EPISODES,
    seed: int = 0,
    title: str = "vlnbert report",
    context: str | None = None,
    bar: bool = True,
) -> Path:
    """Write what a run learned as one HTML file: scores beside baselines, curves, and some episodes to look at.

    Args:
        run: The run, or its folder.
        out: The file to write.
        data: The data folder, or what `vln.open_data` gave; by default what the run was trained on.
        split: The split to walk, as task/split; by default the one that chooses the best weights.
        episodes: How many to draw, evenly spread over the split.
        seed: Of the random baseline.
        title: The report's heading.
        context: What it is about, in a sentence or two; by default what the run's folder tells.
        bar: Show progress.
    """
    require_within(episodes=(episodes, 1, 1000))
    run = open_run(run)
    with quiet(not bar):
        compared = compare(run, data, split=split, seed=seed)
        return write_run_report(run, compared, out, episodes=episodes, title=title, context=context)


def compare(run: Run, data: Data | str | Path | None = None, *, split: str | None = None, seed: int = 0) -> Comparison:
    """A run beside what it must beat and what nobody can, on one split."""
    load_recorded(run.record.plugins)
    name = _validated(run, split)
    opened = open_data(run.record.data if data is None else data)
    features = run.experiment.features.updated_by(opened.features)
    opened = opened.seen_as(replace(run.experiment, features=features).seen).holding_out(run.record.held_out)
    steps = run.experiment.training.max_steps
    agents: dict[str, Run | str] = {"random": "random", "shortest": "shortest", "navigator": run}
    ready = {agent: prepare(one, opened, name, seed=seed, max_steps=steps) for agent, one in agents.items()}
    walked = {agent: one.walk(name, record=agent == "navigator") for agent, one in ready.items()}
    return Comparison(opened, name, walked, ready["navigator"].recorder)


def write_run_report(
    run: Run,
    compared: Comparison,
    out: str | Path,
    *,
    episodes: int = EPISODES,
    title: str = "vlnbert report",
    context: str | None = None,
) -> Path:
    """Write the report of a run that was walked already."""
    write_report(Path(out), _report(run, compared, episodes, title, context))
    return Path(out)


def _validated(run: Run, split: str | None) -> str:
    split = split or run.experiment.best_on
    if split not in run.experiment.validate_on:
        raise UnknownNameError("validation split", split, run.experiment.validate_on)
    return split


def _report(run: Run, compared: Comparison, episodes: int, title: str, context: str | None) -> Report:
    """The table, the learning curves and some episodes with the words that were attended to."""
    data, scores, evaluation = compared.data, compared.table(), compared.evaluations["navigator"]
    table = Table(
        columns=("agent", *scores.columns[1:]),
        rows=scores.rows,
        title=compared.split,
        note="TL and NE in metres, episodes counted, all others in percent.",
    )
    others = {agent: float(compared.scores[agent]["sr"] or 0) for agent in ("random", "shortest")}
    drawn = Drawing(figure_svg(draw_curves(run.log, compared.split, others)), "How it learned.")
    told = context or CONTEXT.format(run=run.folder.name, updates=run.progress.iteration, preset=run.preset)
    told += f" The navigator walks with {run.describe_weights()}."
    if evaluation.predicted_objects is not None:
        told += (
            f" To guess among the objects in view at the goal would name {100 * _luck(data, evaluation):.0f} % of them."
        )
    return Report(title, told, (table,), (drawn,), _cards(compared, episodes))


def _cards(compared: Comparison, count: int) -> tuple[EpisodeCard, ...]:
    """Some episodes, evenly spread over the split, with what was read at every step."""
    evaluation, world, cards = compared.evaluations["navigator"], compared.data.world, []
    total = len(evaluation.episodes)
    for row in range(0, total, -(-total // count)):
        record = compared.recorder.episode(evaluation, row)
        walked, reference = (
            [world.find(record.scan, name) for name in names] for names in (record.path, record.reference or ())
        )
        figure = draw_episode(world, walked, reference, succeeded=record.success, ending=record.ending)
        words = record.instruction.words
        steps = [(str(n), attended_words(words, one.attention or ())) for n, one in enumerate(record.steps)]
        cards.append(
            EpisodeCard(
                title=f"Episode {record.id}",
                instruction=record.instruction.text,
                outcome=record.ending,
                svg=figure_svg(figure),
                succeeded=record.success,
                steps=Table(("step", "attention"), steps, title="What it read"),
            )
        )
    return tuple(cards)


def _luck(data: Data, evaluation: Evaluation) -> float:
    """How often a guess among the objects that the goal shows would be right."""
    if data.object_bank is None:
        return 0.0
    shown = data.object_bank.object_table.count[evaluation.episodes.goal]
    return float((1 / shown.clamp(min=1)).mean())
