"""The numbers in the repository are the reference's, and where others are missing this is told."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.golden.conftest import PARTS, absent

MOST_BYTES = 2_000_000


def test_the_folder_is_small_enough_to_travel(numbers: Path) -> None:
    assert sum(path.stat().st_size for path in numbers.iterdir()) < MOST_BYTES


def test_every_file_is_explained(numbers: Path) -> None:
    told = (numbers / "README.md").read_text()
    assert [path.name for path in numbers.iterdir() if f"`{path.name}`" not in told and path.name != "README.md"] == []


def test_arrays_are_the_reference_s(numbers: Path, golden: Path) -> None:
    files = sorted(numbers.glob("*.npz"))
    assert len(files) == 5
    for path in files:
        ours, theirs = np.load(path), np.load(golden / path.name)
        assert ours.files == theirs.files
        for name in theirs.files:
            assert (ours[name].dtype, ours[name].shape) == (theirs[name].dtype, theirs[name].shape), name
            assert ours[name].tobytes() == theirs[name].tobytes(), name


def test_facts_are_the_reference_s(numbers: Path, golden: Path) -> None:
    files = sorted(numbers.glob("*.json"))
    assert len(files) == 4
    for path in files:
        assert json.loads(path.read_text()) == json.loads((golden / path.name).read_text()), path.name


def test_batches_are_the_reference_s_without_the_names_of_instructions(numbers: Path, golden: Path) -> None:
    theirs = json.loads((golden / "a2c_batches.json").read_text())
    for batch in theirs:
        del batch["instr_ids"]
    assert json.loads(gzip.decompress((numbers / "a2c_batches.json.gz").read_bytes())) == theirs


@pytest.mark.parametrize("variant", ["oscar", "prevalent"])
def test_rebuilt_checkpoints_are_the_reference_s(checkpoint: Callable[[str], Path], golden: Path, variant: str) -> None:
    ours = torch.load(checkpoint(variant), weights_only=True)
    theirs = torch.load(golden / f"checkpoint_{variant}.pt", weights_only=True)
    assert list(ours) == list(theirs) == list(PARTS)
    for part in PARTS:
        assert list(ours[part]) == list(theirs[part])
        assert ours[part]["epoch"] == theirs[part]["epoch"]
        found, expected = ours[part]["state_dict"], theirs[part]["state_dict"]
        assert list(found) == list(expected)
        for name, tensor in expected.items():
            assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
            assert torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8)), name


def test_missing_numbers_skip_at_home_and_fail_where_they_are_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"^no golden numbers at {tmp_path}$"):
        absent("golden numbers", tmp_path)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"^no golden numbers at {tmp_path}, and CI=true: "):
        absent("golden numbers", tmp_path)
