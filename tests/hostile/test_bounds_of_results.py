"""Result files that ask for more than they hold, and walks of very different lengths."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.evaluation.memory import read_document
from tests.limits import refusal
from vlnbert.errors import Faults, InvalidFileError
from vlnbert.evaluation import metrics
from vlnbert.evaluation.results import read_results
from vlnbert.tasks import episodes
from vlnbert.tasks.episodes import check_longest
from vlnbert.world.world import World


def read(path: Path) -> None:
    faults = Faults(path)
    read_results(path, faults)
    faults.raise_if_any()


def test_nested_legs_are_counted_before_they_are_expanded(tmp_path: Path) -> None:
    hops = [["a"] * 1000] * 1000
    (tmp_path / "results.json").write_text(json.dumps([{"instr_id": "1_0", "trajectory": hops}]))
    words = refusal(read, tmp_path / "results.json")
    assert "has a trajectory of 1,000,000 hops; no agent takes more than 1,000" in words


@pytest.mark.parametrize("hops", [["a"] * 1001, [["a", "b"]] * 501, [["a", 0.0, 0.0]] * 1001, [["a"] * 1001]])
def test_all_kinds_of_hops_count(hops: Any) -> None:
    faults = Faults(Path("results.json"))
    read_document([{"instr_id": "1_0", "trajectory": hops}], faults)
    assert "hops" in faults.found[0].problem


@pytest.mark.parametrize("hops", [["a"] * 1000, [["a", "b"]] * 500, [["a", 0.0, 0.0]] * 1000, [["a"] * 1000]])
def test_the_longest_that_is_allowed(hops: Any) -> None:
    faults = Faults(Path("results.json"))
    assert len(read_document([{"instr_id": "1_0", "trajectory": hops}], faults).results[0].path) == 1000
    assert not faults.found


def test_repeated_keys_of_an_object_are_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"1_0": ["a", "b"], "1_1": ["a"], "1_0": ["a", "c"], "1_0": {"trajectory": ["a", "b"]}}')
    file = read_results(path, Faults(path))
    assert [(result.id, result.path) for result in file.results] == [("1_0", ("a", "b")), ("1_1", ("a",))]
    assert file.notes.lines() == [
        "4 trajectories keyed by instruction, not listed",
        "2 trajectories of viewpoints alone",
        "2 repeated entries dropped, 1 of them different; the first of each is kept",
    ]


@pytest.mark.parametrize(
    "text", ['{"1_0" ["a"]}', '{1: ["a"]}', '{"1_0": ["a"],}', '{"1_0": ["a"]} {}', '{"1_0": ["a"']
)
def test_objects_that_are_not_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    assert "is not a whole JSON list or object" in refusal(read, path)


def test_results_in_other_encodings_are_read(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        path = tmp_path / encoding
        path.write_bytes('[{"instr_id": "é", "trajectory": ["a"]}]'.encode(encoding))
        assert [result.id for result in read_results(path, Faults(path)).results] == ["é"]


def test_long_walks_are_measured_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.tensor([number for number, scan in enumerate(world.scan_of.tolist()) if scan == 0])
    lengths = torch.randint(1, 30, (50,), generator=generator)
    walked, reference = (first[torch.randint(len(first), (50, 30), generator=generator)] for _ in range(2))
    hop = torch.arange(30)
    walked = walked.gather(1, torch.minimum(hop.expand(50, 30), lengths[:, None] - 1))
    others = torch.randint(1, 30, (50,), generator=generator)
    reference = reference.gather(1, torch.minimum(hop.expand(50, 30), others[:, None] - 1))
    arrived, grounded = torch.rand(50, 30, generator=generator) < 0.5, torch.rand(50, generator=generator) < 0.5

    def scores() -> metrics.Scores:
        return metrics.measure(
            world,
            walked,
            lengths,
            reference,
            others,
            arrived=arrived.gather(1, torch.minimum(hop.expand(50, 30), lengths[:, None] - 1)),
            grounded=grounded,
        )

    whole = scores()
    monkeypatch.setattr(metrics, "MOST_CELLS", 3000)
    apart = scores()
    expected = apart.columns()
    for name, column in whole.columns().items():
        assert torch.allclose(column, expected[name], rtol=0, atol=1e-12), name


def test_one_path_does_not_make_all_others_long(monkeypatch: pytest.MonkeyPatch) -> None:
    paths, names = [[0, 1]] * 99 + [[0] * 1000], [str(number) for number in range(100)]
    check_longest(paths, names, Faults(Path("a")))
    monkeypatch.setattr(episodes, "MOST_HOPS", 99_999)
    with pytest.raises(
        InvalidFileError, match="instruction 99: its path of 1,000 viewpoints is too long beside 99 others"
    ):
        check_longest(paths, names, Faults(Path("a")))
