"""Processes that learn together: what each knows of the others, and that one alone needs none."""

import os
import socket
from pathlib import Path

import pytest
import torch
from torch import distributed

from tests.processes import together
from vlnbert.ranks import ALONE, Ranks, joined

CPU = torch.device("cpu")


def talk(ranks: Ranks) -> dict[str, object]:
    own = torch.tensor([ranks.rank + 1, 10])
    total, mean = ranks.sum(own), ranks.mean(own)
    ranks.wait()
    return {
        "own": own.tolist(),
        "sum": total.tolist(),
        "mean": mean.tolist(),
        "any": [ranks.any(ranks.rank == 1, CPU), ranks.any(False, CPU)],
        "writes": ranks.writes,
    }


def test_a_team_adds_up(tmp_path: Path) -> None:
    first, second = together(2, tmp_path, talk)
    for one, own in ((first, [1, 10]), (second, [2, 10])):
        assert one["own"] == own, "what is summed is left as it is"
        assert one["sum"] == [3, 20]
        assert one["mean"] == [1.5, 10]
        assert one["any"] == [True, False]
    assert first["writes"]
    assert not second["writes"]


def test_one_alone_needs_no_others() -> None:
    own = torch.tensor([3, 4])
    assert ALONE.sum(own) is own
    assert ALONE.mean(own) is own
    assert [ALONE.any(flag, CPU) for flag in (True, False)] == [True, False]
    assert ALONE.writes
    ALONE.wait()
    assert not distributed.is_initialized()


def test_without_torchrun_one_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with joined("cpu") as place:
        assert place == (ALONE, "cpu")
        assert not distributed.is_initialized()


def test_with_torchrun_one_joins_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in {"TORCHELASTIC_RUN_ID": "test", **told}.items():
        monkeypatch.setitem(os.environ, name, str(value))
    with joined("cpu") as place:
        assert place == (Ranks(0, 1), "cpu")
        assert distributed.is_initialized()
    assert not distributed.is_initialized(), "it leaves"
