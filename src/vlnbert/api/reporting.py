"""Pictures of a run: its curves, and a report as one HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from vlnbert.analysis import Drawing, EpisodeCard, Report, attended_words, draw_episode, figure_svg, write_report
from vlnbert.analysis.curves import draw_curves, save_figure
from vlnbert.analysis.trace import trace_episode
from vlnbert.api.arguments import checked
from vlnbert.api.evaluating import evaluate
from vlnbert.api.runs import Run, open_run
from vlnbert.data.data import Data, open_data
from vlnbert.environment.environment import Environment
from vlnbert.errors import UnknownNameError
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.tables import Summary, score_table
from vlnbert.navigator import Navigator
from vlnbert.perception.objects import readable_name
from vlnbert.progress import quiet
from vlnbert.registry import load_recorded
from vlnbert.runtime import require_within
from vlnbert.tables import Table
from vlnbert.tasks.splits import Split
from vlnbert.world.objects import NONE

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
    features = run.navigator_experiment.features.updated_by(opened.features)
    opened = opened.seen_as(replace(run.experiment, features=features).seen).holding_out(run.record.held_out)
    steps = run.navigator_experiment.training.max_steps
    agents: dict[str, Run | str] = {"random": "random", "shortest": "shortest", "navigator": run}
    walked = {agent: evaluate(one, opened, name, seed=seed, max_steps=steps)[name] for agent, one in agents.items()}
    return Comparison(opened, name, walked)


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
    navigator = run.navigator
    split = data.split(compared.split, navigator.tokenizer, run.navigator_experiment.max_tokens)
    told = context or CONTEXT.format(run=run.folder.name, updates=run.progress.iteration, preset=run.preset)
    told += f" The navigator walks with {run.describe_weights()}."
    if evaluation.predicted_objects is not None:
        told += f" To guess among the objects in view at the goal would name {100 * _luck(data, split):.0f} % of them."
    cards = _cards(data.environment, split, navigator, evaluation, episodes)
    return Report(title, told, (table,), (drawn,), cards)


def _cards(
    environment: Environment, split: Split, navigator: Navigator, evaluation: Evaluation, count: int
) -> tuple[EpisodeCard, ...]:
    """Some episodes, evenly spread over the split, with what was read at every step."""
    episodes, scores, cards = split.episodes, evaluation.scores, []
    for row in range(0, len(episodes), -(-len(episodes) // count)):
        trace = trace_episode(navigator, environment, episodes=episodes, tokens=split.tokens, row=row)
        path = episodes.path[row, : episodes.path_length[row]].tolist()
        succeeded = scores is not None and bool(scores.sr[row])
        figure = draw_episode(environment.world, trace.viewpoint, path, succeeded=succeeded)
        pieces = _pieces(navigator, split, row)
        steps = [(str(step), attended_words(pieces, w.tolist())) for step, w in enumerate(trace.weights)]
        table = Table(("step", "attention"), steps, title="What it read")
        outcome = f"stopped {scores.ne[row]:.1f} m from the goal" if scores is not None else ""
        if evaluation.predicted_objects is not None:
            stopped_at = int(evaluation.trajectories.viewpoint[row, -1])
            named = _object_name(environment, stopped_at, evaluation.predicted_objects[row])
            asked = _object_name(environment, path[-1], episodes.targets[row])
            outcome += f" and named {named}; asked for was {asked}"
        cards.append(
            EpisodeCard(
                title=f"Episode {episodes.ids[row]}",
                instruction=episodes.texts[row],
                outcome=outcome,
                svg=figure_svg(figure),
                succeeded=succeeded,
                steps=table,
            )
        )
    return tuple(cards)


def _object_name(environment: Environment, viewpoint: int, id: str | None) -> str:
    """What an object is called, or that there is none."""
    bank = environment.object_bank
    if bank is None or id is None or bank.object_table.index(viewpoint, id) == NONE:
        return "nothing"
    return f"the {readable_name(bank.object_table.name_of(viewpoint, id))}"


def _luck(data: Data, split: Split) -> float:
    """How often a guess among the objects that the goal shows would be right."""
    if data.object_bank is None:
        return 0.0
    shown = data.object_bank.object_table.count[split.episodes.goal]
    return float((1 / shown.clamp(min=1)).mean())


def _pieces(navigator: Navigator, split: Split, row: int) -> list[str]:
    """The word pieces of an instruction after [CLS]."""
    ids = split.tokens.ids[row, 1 : int(split.tokens.count[row])].tolist()
    return [navigator.tokenizer.id_to_token(piece) or "" for piece in ids] if navigator.tokenizer else []
