"""Make the explorer's agent anew: `python -m tools.make_agent`, about ten minutes on one core.

A tiny navigator for both tasks learns in generated houses, is kept in half precision, and is scored as it ships, in
houses that it has never seen. Its card says what came of it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from vlnbert.api.demonstrating import generate_house
from vlnbert.api.looking import evaluate
from vlnbert.api.training import train
from vlnbert.errors import VlnbertError
from vlnbert.explorer.explorer import AGENT
from vlnbert.navigator import Navigator
from vlnbert.sources.writing import replaced

SEED, SCANS, UPDATES = 7, 36, 2400
SPLITS = ("r2r/val_unseen", "reverie/val_unseen")
CARD = """

It walks in `vlnbert explore` where no run is named. `make agent` (`python -m tools.make_agent`) made it: {scans}
generated houses (seed {seed}), {updates:,} updates of the preset `demo-both`, averaged weights, kept in float16. It was
scored as it lies here, in the {unseen} houses kept out of its training; its checkpoint was chosen by SPL of
reverie/val_unseen there, so the scores are a little optimistic.

| split | episodes | SR | SPL | NE m | RGS |
| --- | --- | --- | --- | --- | --- |
{rows}
"""


def make_agent(out: Path = AGENT, *, seed: int = SEED, scans: int = SCANS, updates: int = UPDATES) -> None:
    """Train the agent and write its folder, whole or not at all."""
    with TemporaryDirectory() as temporary, replaced(out) as beside:
        data = generate_house(Path(temporary) / "house", seed, scans)
        run = train(
            "demo-both",
            data,
            Path(temporary) / "run",
            iterations=updates,
            warmup=min(50, updates),
            validate_every=max(1, updates // 4),
            ema=0.995,
            positions=128,
            seed=seed,
            threads=1,
            tensorboard=False,
        )
        run.navigator.half().save_pretrained(beside, model_card_kwargs={"preset": "demo-both"})
        shipped = Navigator.from_pretrained(beside)  # in float32 again, as it will walk
        scores = evaluate(shipped, data, SPLITS).scores
        rows = (
            f"| {name} | {one['episodes']:,} | {_percent(one['sr'])} | {_percent(one['spl'])} | {one['ne']:.2f} | "
            f"{_percent(one.get('rgs'))} |"
            for name, one in scores.items()
        )
        unseen = len({data.world.scans[place] for place in data.world.scan_of[data.episodes(SPLITS[0]).start].tolist()})
        text = CARD.format(scans=scans, seed=seed, updates=updates, unseen=unseen, rows="\n".join(rows))
        card = beside / "README.md"
        card.write_text(card.read_text(encoding="utf-8") + text, encoding="utf-8")


def _percent(value: float | int | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


if __name__ == "__main__":
    try:
        make_agent(*map(Path, sys.argv[1:2]))
    except VlnbertError as error:
        sys.exit(f"make_agent: {error}")
