"""Pictures of a run: its curves, and a report as one HTML file."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from typing import Any

from matplotlib.figure import Figure

from vlnbert import __version__
from vlnbert.analysis.figures import draw_curves, save_figure
from vlnbert.analysis.house_plan import house_plan
from vlnbert.analysis.report import (
    BEST,
    TYPICAL,
    WORST,
    EpisodeCard,
    Report,
    Section,
    figures,
    find_mistakes,
    folded,
    headline,
    how_it_learned,
    how_well,
    listing,
    paper_rows,
    paragraph,
    pick_episodes,
    what_was_asked,
    what_went_wrong,
    write_report,
)
from vlnbert.api.agents import load_agent
from vlnbert.api.runs import Run
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.metrics import Summary, score_table
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import Recorder
from vlnbert.evaluation.walker import Walker
from vlnbert.plugins import load_recorded
from vlnbert.records import to_plain
from vlnbert.tables import Table
from vlnbert.tasks.splits import full_name, task_and_split

AGENT = "navigator"  # what a report calls the run's
EPISODES = 6  # shown in a report by default
CONTEXT = "A navigator trained with the preset {preset}, after {updates:,} updates."
TITLES = {BEST: "Among the best", TYPICAL: "Typical", WORST: "Among the worst"}
TO_READ = (
    "Move the slider, or use the arrow keys. Words are tinted by the attention that they got before each choice; lines "
    "from where the agent stands are its choices, broader where it was surer."
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


def draw_run(run: Run, out: str | Path | None, split: str | None) -> Figure:
    """The losses of a run and its scores on a validation split, as a picture that is written where one is named."""
    with suppress(UsageError):  # a task's own metrics are drawn where its plugin may be loaded
        load_recorded(run.record.plugins)
    figure = draw_curves(run.log, _validated(run, split), {})
    if out is not None:
        save_figure(figure, Path(out))
    return figure


def compare_with_baselines(
    run: Run, data: Data | str | Path | None = None, *, split: str | None = None, seed: int = 0
) -> Comparison:
    """A run beside the baselines on one split: random walks, and shortest paths, which no agent can beat."""
    load_recorded(run.record.plugins)
    name = _validated(run, split)
    opened = open_data(run.record.data if data is None else data)
    features = run.navigator_experiment.features.updated_by(opened.features)
    opened = opened.seen_as(replace(run.experiment, features=features).seen).holding_out(run.record.held_out)
    steps = run.navigator_experiment.training.max_steps
    agents: dict[str, Run | str] = {"random": "random", "shortest": "shortest", AGENT: run}
    options = WalkOptions(seed=seed, max_steps=steps)
    walkers = {agent: Walker(load_agent(one), opened, name, options) for agent, one in agents.items()}
    evaluations = {agent: walker.walk(name, record=agent == AGENT) for agent, walker in walkers.items()}
    return Comparison(opened, name, evaluations, walkers[AGENT].recorder)


def write_run_report(
    run: Run,
    compared: Comparison,
    out: str | Path,
    *,
    episodes: int = EPISODES,
    title: str | None = None,
    context: str | None = None,
) -> Path:
    """Write the report of a run that was walked already."""
    write_report(Path(out), _report(run, compared, episodes, title, context))
    return Path(out)


def _validated(run: Run, split: str | None) -> str:
    split = full_name(split or run.experiment.best_on, run.task)
    if split not in run.experiment.validate_on:
        known = " or ".join(setting("split", name) for name in run.experiment.validate_on)
        raise UsageError(f"{run.folder} was not validated on {split}; choose one that it was: {known}")
    return split


def _report(run: Run, compared: Comparison, episodes: int, title: str | None, context: str | None) -> Report:
    """The task, scores, learning curves, mistakes, episodes, and how the run was made."""
    evaluation, scores = compared.evaluations[AGENT], compared.scores
    task, split = task_and_split(compared.split)
    if evaluation.scores is None:
        raise UsageError(f"{compared.split} withholds its goals, so there is nothing to report; choose another split")
    cards = _cards(
        compared, pick_episodes(evaluation.scores, episodes, list(map(tuple, evaluation.episodes.path.tolist())))
    )
    context = context or CONTEXT.format(updates=run.progress.iteration, preset=run.preset)
    note = ""
    if evaluation.predicted_objects is not None:
        luck = 100 * _luck(compared.data, evaluation)
        note = f"To guess among the objects in view at the goal would name {luck:.0f} % of them."
    others = {agent: float(scores[agent]["sr"] or 0) for agent in scores if agent != AGENT}
    typical = next((card for card in cards if card.title.startswith(TITLES[TYPICAL])), cards[0])
    paper = paper_rows(compared.data.world, evaluation.episodes)
    return Report(
        title or f"How {run.folder.resolve().name} walks {compared.split}",
        [
            paragraph(f"{context} Here it walks {compared.split} with {run.describe_weights()}.", "lead"),
            *what_was_asked(task, split, typical.record.instruction.text),
            figures(headline(task, scores, AGENT)),
        ],
        [
            how_well(task, scores, AGENT, paper, note),
            how_it_learned(run.log, compared.split, others),
            what_went_wrong(find_mistakes(evaluation)),
            Section("Episodes", [paragraph(TO_READ), *cards]),
            how_it_was_made(run, compared.split, evaluation.max_steps),
        ],
        {"scores": scores},
    )


def _cards(compared: Comparison, picked: list[tuple[str, int]]) -> list[EpisodeCard]:
    """Some episodes in their houses; each house is drawn once."""
    evaluation, plans = compared.evaluations[AGENT], dict[str, dict[str, Any]]()
    cards = []
    for kind, row in picked:
        record = compared.recorder.episode(evaluation, row)
        plan = plans.setdefault(record.scan, house_plan(compared.data, record.scan))
        cards.append(EpisodeCard(f"{TITLES[kind]}: episode {record.id}", record, plan))
    return cards


def _luck(data: Data, evaluation: Evaluation) -> float:
    """How often a guess among the objects that the goal shows would be right."""
    if data.object_bank is None:
        return 0.0
    shown = data.object_bank.object_table.count[evaluation.episodes.goal]
    return float((1 / shown.clamp(min=1)).mean())


def how_it_was_made(run: Run, split: str, max_steps: int | None) -> Section:
    """Configuration, data and commands; a script could follow them."""
    experiment, settings = run.navigator_experiment, dict(_leaves(to_plain(run.experiment)))
    training, shape = experiment.training, experiment.navigator
    rows = [
        ("preset", run.preset),
        ("changed by hand", ", ".join(f"{place} = {_said(settings[place])}" for place in _asked(run, settings))),
        ("navigator", f"{shape.backbone}, {shape.hidden} wide, {shape.heads} heads"),
        ("what views look like", str(experiment.features.views or "")),
        ("what objects look like", str(experiment.features.objects or "")),
        ("started from", str(experiment.start or "nothing")),
        ("learned from", ", ".join(experiment.train_on)),
        ("updates made", f"{run.progress.iteration:,} of {training.iterations:,}"),
        ("batch", str(training.batch)),
        ("learning rate", f"{training.learning_rate:g}"),
        ("seed", str(training.seed)),
        ("data folder", run.record.data),
        ("steps allowed here", "" if max_steps is None else str(max_steps)),
        ("vlnbert", __version__),
    ]
    table = Table(("setting", "value"), [row for row in rows if row[1]])
    whole = "\n".join(f"{place} = {_said(value)}" for place, value in settings.items())
    return Section(
        "How this was made",
        [
            table,
            paragraph("The same again:"),
            listing(commands(run, split, settings)),
            folded("All settings", listing(whole)),
        ],
    )


def commands(run: Run, split: str, settings: dict[str, Any]) -> str:
    """The commands that train, evaluate and report such a run."""
    data = run.record.data
    folder = run.folder.name if run.folder.is_absolute() else str(run.folder)  # an absolute one is taken already
    changes = [word for place in _asked(run, settings) for word in _option(place, settings[place])]
    task, _, name = split.partition("/")
    lines = [
        ["vlnbert", "train", run.preset, "--data", data, "--out", folder, *changes],
        ["vlnbert", "evaluate", folder, "--data", data, "--task", task, "--splits", name],
        ["vlnbert", "report", folder, "--data", data, "--split", split],
    ]
    return "\n".join(map(join, lines))


def _asked(run: Run, settings: dict[str, Any]) -> list[str]:
    return [place for place in run.record.asked if place in settings]


def _option(place: str, value: Any) -> list[str]:
    """A setting as the command line takes it."""
    name = place.replace("_", "-")
    if isinstance(value, bool):
        group, _, word = name.rpartition(".")
        return [f"--{group}{'.' * bool(group)}{'' if value else 'no-'}{word}"]
    return [f"--{name}", *(map(str, value) if isinstance(value, list | tuple) else [str(value)])]


def _leaves(values: dict[str, Any], place: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in values.items():
        where = f"{place}.{name}".strip(".")
        found += _leaves(value, where) if isinstance(value, dict) else [(where, value)]
    return found


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
