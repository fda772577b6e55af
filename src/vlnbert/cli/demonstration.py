"""What the demo is made of: a training in a generated house, agents to compare with, pieces of the report."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vlnbert.analysis import Drawing, EpisodeCard, Report, Table, attended_words, draw_episode, figure_svg
from vlnbert.analysis.curves import draw_curves
from vlnbert.analysis.trace import trace_episode
from vlnbert.cli.tables import Summary, score_rows
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent, evaluate_navigator
from vlnbert.house import generate
from vlnbert.learning.callbacks import read_log
from vlnbert.learning.checkpoints import is_run
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.perception.objects import readable_name
from vlnbert.presets import find_preset
from vlnbert.rollout.baselines import baseline
from vlnbert.tasks.splits import Split
from vlnbert.world.objects import NONE

SHOWN = 3  # episodes drawn in the report
PRESETS = {"r2r": "demo", "reverie": "demo-reverie"}


def demo_experiment(task: str, seed: int, iterations: int | None) -> Experiment:
    """The experiment of a task's demo, with another number of updates where one is given."""
    experiment = find_preset(PRESETS[task]).experiment
    training = replace(experiment.training, seed=seed)
    if iterations is not None:
        warmup, every = min(training.warmup, iterations), max(1, iterations // 4)
        training = replace(training, iterations=iterations, warmup=warmup, validate_every=every)
    return replace(experiment, training=training)


def start_training(experiment: Experiment, house: Path, run: Path, scans: int) -> Trainer:
    """Make the house unless it is there; a tiny navigator at the start of its training, or where it was left."""
    if not house.exists():
        generate(house, seed=experiment.training.seed, scans=scans)
    if is_run(run):
        return resume_run(run, house)
    return begin_run(PRESETS[experiment.tasks[0]], experiment, house, run)


def evaluate_all(trainer: Trainer, navigator: Navigator, seed: int) -> dict[str, Evaluation]:
    """The navigator beside what it must beat and what nobody can."""
    environment, split, limit = trainer.environment, trainer.validation[trainer.best_on], trainer.config.limit
    agents = {name: baseline(name, environment.world, seed) for name in ("random", "shortest")}
    others = {name: evaluate_agent(environment, agent, split.episodes, limit) for name, agent in agents.items()}
    own = evaluate_navigator(environment, navigator, split.episodes, split.tokens, limit, batch=256)
    return others | {"navigator": own}


def make_report(
    trainer: Trainer,
    navigator: Navigator,
    evaluation: Evaluation,
    summaries: Mapping[str, Summary],
    seed: int,
    scans: int,
) -> Report:
    """The table, the learning curves and some episodes with the words that were attended to."""
    headings, rows = score_rows(summaries)
    table = Table(
        "Unseen houses",
        ("agent", *headings),
        tuple(map(tuple, rows)),
        "TL and NE in metres, episodes counted, all others in percent.",
    )
    others = {name: float(summaries[name]["sr"] or 0) for name in ("random", "shortest")}
    log = read_log(trainer.run / "log.jsonl")
    curves = Drawing(figure_svg(draw_curves(log, trainer.best_on, others)), "How it learned.")
    context = (
        f"A tiny navigator trained from nothing on {scans} generated houses (seed {seed}), here in houses it has never "
        "seen. The random agent picks a heading and walks five steps; the shortest agent knows the goal. Below, words "
        "are tinted by the attention that the navigator paid them before each choice."
    )
    if evaluation.objects is not None:
        context += f" To guess among the objects in view at the goal would name {100 * _luck(trainer):.0f} % of them."
    cards = _cards(trainer.environment, trainer.validation[trainer.best_on], navigator, evaluation)
    return Report("vlnbert demo", context, (table,), (curves,), cards)


def _cards(
    environment: Environment, split: Split, navigator: Navigator, evaluation: Evaluation
) -> tuple[EpisodeCard, ...]:
    """Some episodes, evenly spread over the split, with what was read at every step."""
    episodes, scores, cards = split.episodes, evaluation.scores, []
    for row in range(0, len(episodes), -(-len(episodes) // SHOWN)):
        trace = trace_episode(navigator, environment, episodes=episodes, tokens=split.tokens, row=row)
        path = episodes.path[row, : episodes.path_length[row]].tolist()
        succeeded = scores is not None and bool(scores.sr[row])
        figure = draw_episode(environment.world, trace.viewpoint, path, succeeded=succeeded)
        pieces = _pieces(navigator, split, row)
        steps = [(str(step), attended_words(pieces, w.tolist())) for step, w in enumerate(trace.weights)]
        table = Table("What it read", ("step", "attention"), tuple(steps))
        outcome = f"stopped {scores.ne[row]:.1f} m from the goal" if scores is not None else ""
        if evaluation.objects is not None:
            named = _called(environment, int(evaluation.walk.viewpoint[row, -1]), evaluation.objects[row])
            outcome += f" and named {named}; asked for was {_called(environment, path[-1], episodes.targets[row])}"
        title = f"Episode {episodes.ids[row]}"
        cards.append(EpisodeCard(title, episodes.texts[row], outcome, figure_svg(figure), succeeded, table))
    return tuple(cards)


def _called(environment: Environment, viewpoint: int, id: str | None) -> str:
    """What an object is called, or that there is none."""
    if environment.objects is None or id is None or environment.objects.objects.index(viewpoint, id) == NONE:
        return "nothing"
    return f"the {readable_name(environment.objects.objects.called(viewpoint, id))}"


def _luck(trainer: Trainer) -> float:
    """How often a guess among the objects that the goal shows would be right."""
    if trainer.environment.objects is None:
        return 0.0
    shown = trainer.environment.objects.objects.count[trainer.validation[trainer.best_on].episodes.goal]
    return float((1 / shown.clamp(min=1)).mean())


def _pieces(navigator: Navigator, split: Split, row: int) -> list[str]:
    """The word pieces of an instruction after [CLS]."""
    ids = split.tokens.ids[row, 1 : int(split.tokens.count[row])].tolist()
    return [navigator.tokenizer.id_to_token(piece) or "" for piece in ids] if navigator.tokenizer else []
