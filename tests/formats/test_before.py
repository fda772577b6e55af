"""Folders that an earlier commit wrote still open: the same scores, and the same weights when a run is resumed.

Everything goes through the command line, which stays while names within the package change.
"""

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, layer_norm, log_softmax, scaled_dot_product_attention

from tests.cli.conftest import called

BEFORE = Path(__file__).parent
EXPECTED = {folder.name: json.loads((folder / "expected.json").read_text()) for folder in sorted(BEFORE.glob("v*"))}
RUNS = {f"{version}/{name}": run for version, told in EXPECTED.items() for name, run in told["runs"].items()}
STOPPED = (
    "v1/run-reverie",
    "v1/run-stopped",
    "v4/run-navigator",
    "v4/run-speaker",
    "v5/run-navigator",
    "v5/run-speaker",
)
UPDATES = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house that the runs were made in."""
    folder = tmp_path_factory.mktemp("formats") / "house"
    assert called("house", folder, "--seed", 0, "--scans", 3).code == 0
    return folder


@pytest.fixture(scope="module")
def exact() -> bool:
    """Whether this machine rounds as that on which the runs were made: if not, the last bits may differ."""
    return all(told["rounding"] == rounding() for told in EXPECTED.values())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_scores_as_before(data: Path, tmp_path: Path, exact: bool, name: str) -> None:
    check_scores(scores(copied(name, tmp_path), data), name, exact)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_as_before(data: Path, tmp_path: Path, exact: bool, name: str) -> None:
    run = copied(name, tmp_path)
    outcome = called("train", "--resume", run, "--data", data, "--threads", 1)
    assert outcome.code == 0, outcome.err
    assert f"{run}: {UPDATES} updates" in outcome.out
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["total"] for line in lines if "total" in line]
    if exact:
        assert losses == RUNS[name]["losses"]
        assert weights_digest(run) == RUNS[name]["weights"]
    else:
        assert losses == pytest.approx(RUNS[name]["losses"], rel=1e-3)


def test_the_runs_are_of_both_kinds() -> None:
    """Where all had come to their end, nothing would be resumed."""
    last = {name: int(json.loads((BEFORE / name / "last.json").read_text())["checkpoint"]) for name in RUNS}
    assert last == {name: 7 if name in STOPPED else UPDATES for name in RUNS}


def test_a_record_of_format_4_does_not_know_flips() -> None:
    """So these folders try what they are kept for."""
    for name in (name for name in RUNS if name.startswith("v4/")):
        record = json.loads((BEFORE / name / "run.json").read_text())
        assert record["format"] == 4
        assert "flip" not in record["experiment"]["training"]


def test_a_record_of_format_5_flips_and_does_not_know_alignment() -> None:
    for kind in ("navigator", "speaker"):
        record = json.loads((BEFORE / f"v5/run-{kind}" / "run.json").read_text())
        assert record["format"] == 5
        training = record["experiment"]["training"]
        assert training.get("flip") == (0.5 if kind == "navigator" else None)
        assert "alignment" not in training.get("objective", {})


def test_a_cache_of_before_does_no_harm(data: Path, tmp_path: Path, cache: Path, exact: bool) -> None:
    """Whether its entries are still of use or not; nor does an entry of a kind that nobody knows."""
    cache.mkdir()
    for packed in (BEFORE / "v1" / "cache").iterdir():
        (cache / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    shutil.copy(next(cache.iterdir()), cache / f"atlas-{'0' * 32}.safetensors")
    check_scores(scores(copied("v1/run-r2r", tmp_path), data), "v1/run-r2r", exact)


@pytest.mark.parametrize("kind", ["tensors without facts", "no tensors"])
def test_a_cache_entry_of_another_kind_is_built_again(
    data: Path, tmp_path: Path, cache: Path, exact: bool, kind: str
) -> None:
    run = copied("v1/run-r2r", tmp_path)
    scores(run, data)
    entries = sorted(cache.glob("*.safetensors"))
    assert len(entries) > 1
    for path in entries:
        if kind == "no tensors":
            path.write_bytes(b"of another time")
        else:
            save_file({"viewpoint": torch.arange(3)}, path)
    planted = {path: path.read_bytes() for path in entries}
    check_scores(scores(run, data), "v1/run-r2r", exact)
    assert sorted(cache.glob("*.safetensors")) == entries
    assert all(path.read_bytes() != content for path, content in planted.items())


def copied(name: str, folder: Path) -> Path:
    return shutil.copytree(BEFORE / name, folder / name)


def scores(run: Path, data: Path) -> dict[str, Any]:
    if "speaker" in run.name:
        draw = ("--split", "r2r/val_unseen", "--score", "--decoding", "nucleus", "--json")
        outcome = called("speak", run, "--data", data, *draw)
    else:
        outcome = called("evaluate", run, "--data", data, "--splits", "val_unseen", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    return found.get("val_unseen", found)


def check_scores(found: dict[str, Any], name: str, exact: bool) -> None:
    """What was told before is told still; more may be told by now."""
    expected = RUNS[name]["scores"]
    told = {score: found[score] for score in expected}
    assert told == expected if exact else told == pytest.approx(expected)


def weights_digest(run: Path) -> str:
    """Of the last weights, by shape and content: names and order may change."""
    last = json.loads((run / "last.json").read_text())["checkpoint"]
    tensors = load_file(run / "checkpoints" / last / "model.safetensors").values()
    contents = (f"{tuple(each.shape)} {hashlib.sha256(each.numpy().tobytes()).hexdigest()}" for each in tensors)
    return hashlib.sha256("\n".join(sorted(contents)).encode()).hexdigest()


def rounding() -> str:
    """A digest of what torch makes here of the operations of a navigator."""
    left, right = (torch.arange(96.0 * size).remainder(37).sub(18).div(19).view(-1, 8) for size in (2, 3))
    product = left @ right.T
    heads = product.view(4, 2, 3, -1)
    made = (
        product,
        log_softmax(product, dim=1),
        layer_norm(product, product.shape[1:]),
        gelu(product),
        product.tanh(),
        scaled_dot_product_attention(heads, heads, heads),
        product.square().sum().sqrt(),
    )
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in made)).hexdigest()
