"""The report of a run, beside baselines, as one HTML file."""

from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Any

from vlnbert import __version__
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
from vlnbert.api.arguments import as_option
from vlnbert.api.comparing import AgentComparison
from vlnbert.api.runs import Run, load_agent
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.walker import Walker
from vlnbert.plugins import load_recorded
from vlnbert.records import leaves, to_plain
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


def compare_with_baselines(
    run: Run, data: Data | str | Path | None = None, *, split: str | None = None, seed: int = 0
) -> tuple[AgentComparison, Walker]:
    """A run beside random walks and shortest paths, which no agent can beat, on one split; and the run's walker."""
    load_recorded(run.record.plugins)
    name = validated(run, split)
    opened = open_data(run.record.data if data is None else data)
    features = run.navigator_experiment.features.updated_by(opened.features)
    opened = opened.seen_as(replace(run.experiment, features=features).seen).holding_out(run.record.held_out)
    steps = run.navigator_experiment.training.max_steps
    agents: dict[str, Run | str] = {"random": "random", "shortest": "shortest", AGENT: run}
    options = WalkOptions(seed=seed, max_steps=steps)
    walkers = {agent: Walker(load_agent(one), opened, name, options) for agent, one in agents.items()}
    evaluations = {agent: walker.walk(name, record=agent == AGENT) for agent, walker in walkers.items()}
    return AgentComparison(name, evaluations, {}), walkers[AGENT]


def validated(run: Run, split: str | None) -> str:
    """The full name of a split that a run was validated on, by default the one that chooses the best weights."""
    split = full_name(split or run.experiment.best_on, run.task)
    if split not in run.experiment.validate_on:
        known = " or ".join(setting("split", name) for name in run.experiment.validate_on)
        raise UsageError(f"{run.folder} was not validated on {split}; choose one that it was: {known}")
    return split


def write_run_report(
    run: Run,
    compared: AgentComparison,
    walker: Walker,
    out: str | Path,
    *,
    episodes: int = EPISODES,
    title: str | None = None,
    context: str | None = None,
) -> Path:
    """Write the report of a run that was walked already: scores, curves, mistakes, episodes, how the run was made."""
    evaluation, scores = compared.evaluations[AGENT], compared.scores
    task, split = task_and_split(compared.split)
    if evaluation.scores is None:
        raise UsageError(f"{compared.split} withholds its goals, so there is nothing to report; choose another split")
    cards, plans = list[EpisodeCard](), dict[str, dict[str, Any]]()
    for kind, row in pick_episodes(evaluation.scores, episodes, list(map(tuple, evaluation.episodes.path.tolist()))):
        record = walker.recorder.episode(evaluation, row)
        plan = plans.setdefault(record.scan, house_plan(walker.data, record.scan))
        cards.append(EpisodeCard(f"{TITLES[kind]}: episode {record.id}", record, plan))
    context = context or CONTEXT.format(updates=run.progress.iteration, preset=run.preset)
    note = ""
    if evaluation.predicted_objects is not None:
        bank, luck = walker.data.object_bank, 0.0
        if bank is not None:
            luck = float((1 / bank.object_table.count[evaluation.episodes.goal].clamp(min=1)).mean())
        note = f"To guess among the objects in view at the goal would name {100 * luck:.0f} % of them."
    others = {agent: float(scores[agent]["sr"] or 0) for agent in scores if agent != AGENT}
    typical = next((card for card in cards if card.title.startswith(TITLES[TYPICAL])), cards[0])
    paper = paper_rows(walker.data.world, evaluation.episodes)
    report = Report(
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
    write_report(Path(out), report)
    return Path(out)


def how_it_was_made(run: Run, split: str, max_steps: int | None) -> Section:
    """Configuration, data and commands; a script could follow them."""
    experiment = run.navigator_experiment
    settings = {place: value for place, value in leaves(to_plain(run.experiment)) if value != {}}
    training, shape = experiment.training, experiment.navigator
    changed = {place: settings[place] for place in run.record.asked if place in settings}
    rows = [
        ("preset", run.preset),
        ("changed by hand", ", ".join(f"{place} = {_said(value)}" for place, value in changed.items())),
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
    whole = "\n".join(f"{place} = {_said(value)}" for place, value in settings.items())
    return Section(
        "How this was made",
        [
            Table(("setting", "value"), [row for row in rows if row[1]]),
            paragraph("The same again:"),
            listing(_commands(run, split, changed)),
            folded("All settings", listing(whole)),
        ],
    )


def _commands(run: Run, split: str, changed: dict[str, Any]) -> str:
    """The commands that train, evaluate and report a run with some settings changed."""
    data, changes = run.record.data, list[str]()
    # An absolute folder is taken already.
    folder = run.folder.name if run.folder.is_absolute() else str(run.folder)
    for place, value in changed.items():
        if isinstance(value, bool):
            changes.append(as_option(place, value))
        else:
            changes += [as_option(place, None), *map(str, value if isinstance(value, list | tuple) else [value])]
    task, _, name = split.partition("/")
    lines = [
        ["vlnbert", "train", run.preset, "--data", data, "--out", folder, *changes],
        ["vlnbert", "evaluate", folder, "--data", data, "--task", task, "--splits", name],
        ["vlnbert", "report", folder, "--data", data, "--split", split],
    ]
    return "\n".join(map(join, lines))


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
