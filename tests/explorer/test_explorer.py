"""The agent that ships: small, with a card, and made by a command."""

import re
from pathlib import Path

import pytest

import vlnbert as vln
from tools.make_agent import make_agent
from vlnbert.explorer.explorer import AGENT, generated_house
from vlnbert.navigator import Navigator

BYTES = 1_500_000


def test_it_is_small_and_opens() -> None:
    assert sum(path.stat().st_size for path in AGENT.iterdir()) < BYTES
    navigator = Navigator.from_pretrained(AGENT)
    assert navigator.tokenizer is not None
    assert navigator.limits.max_steps == 12


def test_it_walks_about_as_well_as_its_card_says() -> None:
    """In the explorer's own house, which it has never seen; its card is of nine others."""
    card = (AGENT / "README.md").read_text()
    told = {name: float(rate) for name, rate in re.findall(r"\| (\w+/val_unseen) \| [\d,]+ \| ([\d.]+)", card)}
    scores = vln.evaluate(AGENT, generated_house(), list(told), bar=False).scores
    for name, rate in told.items():
        assert rate > 80
        assert 100 * float(scores[name]["sr"] or 0) == pytest.approx(rate, abs=15)


def test_the_house_is_made_once() -> None:
    first = generated_house()
    made = (first / "vocab.txt").stat().st_mtime_ns
    assert generated_house() == first
    assert (first / "vocab.txt").stat().st_mtime_ns == made


@pytest.mark.slow
def test_it_is_made_by_a_command(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "agent"
    make_agent(folder, scans=3, updates=2)
    card = (folder / "README.md").read_text()
    assert "2 updates of the preset `demo-both`" in card
    assert re.search(r"\| r2r/val_unseen \| \d+ \| [\d.]+ \| [\d.]+ \| [\d.]+ \|", card)
    assert Navigator.from_pretrained(folder).config.positions == 128
    assert list(folder.parent.iterdir()) == [folder]
