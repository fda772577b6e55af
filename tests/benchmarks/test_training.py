"""`vlnbert bench train` tells how fast a preset learns."""

import json
import sys
from pathlib import Path

import pytest

from vlnbert.cli.main import main


def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["vlnbert", "bench", "train", *words])
    main()
    return capsys.readouterr().out


def test_rates_fit_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = json.loads(
        bench(monkeypatch, capsys, "demo", "--batch", "2", "8", "--rounds", "2", "--threads", "1", "--json")
    )
    small, large = found["batches"]
    assert (small["batch"], large["batch"]) == (2, 8)
    for speed in (small, large):
        assert speed["episodes_per_second"] == pytest.approx(speed["batch"] * speed["updates_per_second"])
        assert 0 < speed["share_of_ceiling"] < 1
        assert speed["peak_bytes"] is None
    assert 2 < large["flops"] / small["flops"] < 8, "more rows cost more; tokens are padded to a bucket"


def test_a_mistyped_preset_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench(monkeypatch, capsys, "dmeo")
    assert "did you mean demo" in capsys.readouterr().err
