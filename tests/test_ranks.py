"""Processes that learn together: what each knows of the others, and that one alone needs none."""

import os
import socket
import time
from pathlib import Path

import pytest
import torch
from torch import distributed

from tests.processes import together
from vlnbert.errors import UsageError
from vlnbert.ranks import ALONE, RankError, Ranks, joined

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


def disagree(ranks: Ranks) -> str:
    """Of three, one has another seed, and says nothing of the data; its text is long."""
    facts = {"the seed": ranks.rank // 2, "text": "x" * 1000 if ranks.rank == 2 else "y"}
    try:
        ranks.agree({**facts, **({} if ranks.rank == 2 else {"data": 5})})
    except UsageError as error:
        return str(error)
    return ""


def agree(ranks: Ranks) -> bool:
    ranks.agree({"the seed": 5, "data": "abc"})
    return True


def test_what_ranks_do_not_agree_on_is_told(tmp_path: Path) -> None:
    told = together(3, tmp_path, disagree)
    problem = "the processes of this training do not agree on the seed, nor on 2 more"
    assert told == [f"{problem} (process 0 has 0, process 2 1); start all of them with the same"] * 3


def test_ranks_that_agree_go_on(tmp_path: Path) -> None:
    assert together(2, tmp_path, agree) == [True, True]
    ALONE.agree({"the seed": 5})


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


def start(monkeypatch: pytest.MonkeyPatch, rank: int, count: int) -> None:
    """Let this process be one of several that torchrun started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in {"TORCHELASTIC_RUN_ID": "test", **told}.items():
        monkeypatch.setitem(os.environ, name, str(value))


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_never_comes_is_told_within_the_patience(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """Also where it is the first, by which the others would meet."""
    start(monkeypatch, rank, 2)
    began = time.monotonic()
    with pytest.raises(RankError) as caught, joined("cpu", timeout=2):
        pass
    assert 1.5 < time.monotonic() - began < 20
    longer = "(where one takes longer to start, give more: rank_timeout=SECONDS); begin it again"
    assert str(caught.value) == f"another process of this training did not come within 2 s {longer}"
    assert caught.value.repeated is False, "somebody must tell"
    assert not distributed.is_initialized()


def test_with_torchrun_one_joins_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, rank=0, count=1)
    with joined("cpu") as place:
        assert place == (Ranks(0, 1), "cpu")
        assert distributed.is_initialized()
    assert not distributed.is_initialized(), "it leaves"
