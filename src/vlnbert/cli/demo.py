"""`vlnbert demo`: a house, a navigator that learns to walk it, and a report to look at."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.cli.devices import require_within

if TYPE_CHECKING:
    from vlnbert.analysis.report import EpisodeCard, Report
    from vlnbert.cli.demonstration import Scene
    from vlnbert.evaluation.evaluate import Evaluation
    from vlnbert.learning.trainer import Trainer
    from vlnbert.navigator import Navigator

SHOWN = 3  # episodes drawn in the report


def demo(out: Path = Path("demo"), seed: int = 0, scans: int = 24, iterations: int = 800, threads: int = 1) -> None:
    """Make houses, train a tiny navigator in them, and show how it walks houses it has never seen.

    Needs no data and no network, and takes about three minutes on two cores. Interrupted, it goes on where it was when
    run again. Open the report in a browser when it is done.

    Example: vlnbert demo --out demo

    Args:
        out: Folder for the houses, the run and report.html. What an earlier demo left there serves again.
        seed: Chooses the houses and the training.
        scans: How many houses to make; about two in three are for training.
        iterations: Updates of the navigator's weights.
        threads: CPU threads. So small a navigator gains nothing from a second.
    """
    import torch

    from vlnbert.analysis.report import write_report
    from vlnbert.cli.demonstration import open_scene, random_and_shortest, start_training
    from vlnbert.navigator import Navigator

    require_within(iterations=(iterations, 1, 1_000_000), threads=(threads, 1, 256), seed=(seed, 0, 2**31))
    torch.set_num_threads(threads)
    scene = open_scene(out / f"house-{seed}-{scans}", seed, scans)
    run = out / f"run-{seed}-{scans}-{iterations}"
    trainer = start_training(scene, run, seed, iterations)
    if not _trained(trainer, out):
        return
    navigator = Navigator.from_pretrained(run / "best")
    evaluations = random_and_shortest(scene, seed) | {"navigator": scene.evaluate(navigator)}
    write_report(out / "report.html", _report(scene, run, navigator, evaluations, seed, scans))
    print(f"open {out / 'report.html'} in a browser")


def _trained(trainer: "Trainer", out: Path) -> bool:
    """Train to the end; an interrupt finishes the update, saves and says how to go on."""
    from vlnbert.learning.callbacks import Bar, JsonLog

    def stop(*_: object) -> None:
        trainer.stopping = True

    before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Bar(trainer.config.iterations, trainer.progress.iteration) as bar:
            trainer.callbacks = [bar, JsonLog(trainer.run / "log.jsonl")]
            trainer.train()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    if trainer.progress.iteration < trainer.config.iterations:
        print(f"interrupted after {trainer.progress.iteration} updates; go on with the same command (--out {out})")
        return False
    return True


def _report(
    scene: "Scene", run: Path, navigator: "Navigator", evaluations: dict[str, "Evaluation"], seed: int, scans: int
) -> "Report":
    from vlnbert.analysis import Drawing, Report, Table, figure_svg
    from vlnbert.analysis.curves import draw_curves
    from vlnbert.cli.tables import print_scores, score_rows
    from vlnbert.learning.callbacks import read_log

    summaries = {name: result.scores.summary() for name, result in evaluations.items() if result.scores is not None}
    print_scores(f"unseen houses, seed {seed}", summaries)
    headings, rows = score_rows(summaries)
    table = Table("Unseen houses", ("agent", *headings), tuple(map(tuple, rows)), "SR to CLS in percent.")
    others = {name: float(summaries[name]["sr"] or 0) for name in ("random", "shortest")}
    curves = Drawing(figure_svg(draw_curves(read_log(run / "log.jsonl"), scene.split, others)), "How it learned.")
    context = (
        f"A tiny navigator trained from nothing on {scans} generated houses (seed {seed}), here in houses it has never "
        "seen. The random agent picks a heading and walks five steps; the shortest agent knows the goal. Below, words "
        "are tinted by the attention that the navigator paid them before each choice."
    )
    return Report("vlnbert demo", context, (table,), (curves,), _cards(scene, navigator, evaluations["navigator"]))


def _cards(scene: "Scene", navigator: "Navigator", evaluation: "Evaluation") -> tuple["EpisodeCard", ...]:
    """Some episodes, evenly spread over the split, with what was read at every step."""
    from vlnbert.analysis import EpisodeCard, Table, attended_words, draw_episode, figure_svg
    from vlnbert.analysis.trace import trace_episode

    episodes, scores, cards = evaluation.episodes, evaluation.scores, []
    for row in range(0, len(episodes), -(-len(episodes) // SHOWN)):
        trace = trace_episode(navigator, scene.environment, episodes, scene.tokens[scene.split], row)
        figure = draw_episode(scene.world, trace.viewpoint, episodes.path[row, : episodes.path_length[row]].tolist())
        pieces = scene.pieces(row)
        steps = [(str(step), attended_words(pieces, w.tolist())) for step, w in enumerate(trace.weights)]
        table = Table("What it read", ("step", "attention"), tuple(steps))
        succeeded = scores is not None and bool(scores.sr[row])
        outcome = f"stopped {scores.ne[row]:.1f} m from the goal" if scores is not None else ""
        title = f"Episode {episodes.ids[row]}"
        cards.append(EpisodeCard(title, episodes.texts[row], outcome, figure_svg(figure), succeeded, table))
    return tuple(cards)
