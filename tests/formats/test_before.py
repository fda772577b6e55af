"""Folders that an earlier commit wrote still open: the same scores, and the same weights when a run is resumed.

Everything goes through the command line, which stays while names within the package change.
"""

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, layer_norm, log_softmax, scaled_dot_product_attention

from tests.cli.conftest import called

BEFORE = Path(__file__).parent
VERSIONS = sorted(folder.name for folder in BEFORE.glob("v*"))
RUNS = [f"{version}/{run.name}" for version in VERSIONS for run in sorted((BEFORE / version).glob("run-*"))]
STOPPED = (
    "v1/run-reverie",
    "v1/run-stopped",
    "v4/run-navigator",
    "v4/run-speaker",
    "v5/run-navigator",
    "v5/run-speaker",
    "v6/run-navigator",
    "v6/run-patient",
    "v6/run-plugin",
    "v6/run-reverie",
    "v6/run-speaker",
)
UPDATES = 12
PLUGIN = BEFORE / "v6" / "own_parts.py"
PATIENT = 9  # updates after which that run has no patience left


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house that the runs were made in, with word labels."""
    folder = tmp_path_factory.mktemp("formats") / "house"
    assert called("house", folder, "--seed", 0, "--scans", 3).code == 0
    write_word_labels(folder)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_a_run_scores_as_before(data: Path, tmp_path: Path, name: str, forget_plugins: Callable[[], None]) -> None:
    check_scores(scores(copied(name, tmp_path), data), name)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_as_before(data: Path, tmp_path: Path, name: str, forget_plugins: Callable[[], None]) -> None:
    run, (expected, exact) = copied(name, tmp_path), expectation(name)
    outcome = called("train", "--resume", run, "--data", data, "--threads", 1, *plugin_of(name))
    assert outcome.code == 0, outcome.err
    assert f"{run}: {PATIENT if name == 'v6/run-patient' else UPDATES} updates" in outcome.out
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["total"] for line in lines if "total" in line]
    if exact:
        assert losses == expected["losses"]
        last = read_json(run / "last.json")["checkpoint"]
        assert weights_digest(run / "checkpoints" / last) == expected["weights"]
        if "best" in expected:  # older expectations do not hold it
            assert weights_digest(run / "best") == expected["best"]
    else:
        assert losses == pytest.approx(expected["losses"], rel=1e-3)


def test_the_runs_are_of_both_kinds() -> None:
    """Where all had come to their end, nothing would be resumed."""
    last = {name: int(read_json(BEFORE / name / "last.json")["checkpoint"]) for name in RUNS}
    assert last == {name: 7 if name in STOPPED else UPDATES for name in RUNS}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_run_has_expectations(version: str) -> None:
    runs = {run.name for run in (BEFORE / version).glob("run-*")}
    files = sorted((BEFORE / version).glob("expected*.json"))
    assert (BEFORE / version / "expected.json") in files
    assert all(read_json(file)["runs"].keys() == runs for file in files)


def test_a_record_of_format_4_does_not_know_flips() -> None:
    """So these folders try what they are kept for."""
    for name in (name for name in RUNS if name.startswith("v4/")):
        record = read_json(BEFORE / name / "run.json")
        assert record["format"] == 4
        assert "flip" not in record["experiment"]["training"]


def test_a_record_of_format_5_flips_and_does_not_know_alignment() -> None:
    for kind in ("navigator", "speaker"):
        record = read_json(BEFORE / f"v5/run-{kind}" / "run.json")
        assert record["format"] == 5
        training = record["experiment"]["training"]
        assert training.get("flip") == (0.5 if kind == "navigator" else None)
        assert "alignment" not in training.get("objective", {})


def test_records_of_format_6_hold_what_they_are_kept_for() -> None:
    records = {name: read_json(BEFORE / name / "run.json") for name in RUNS if name.startswith("v6/")}
    assert {record["format"] for record in records.values()} == {6}
    training = {name.removeprefix("v6/run-"): record["experiment"]["training"] for name, record in records.items()}
    assert training["navigator"]["objective"]["alignment"] == training["navigator"]["flip"] == 0.5
    assert training["navigator"]["split_weights"] != training["navigator"]["final_split_weights"]
    assert {name for name, said in training.items() if said["ema"] == 0.9} == {"navigator", "reverie", "speaker"}
    assert training["reverie"]["objective"]["grounding"] == 10
    assert (training["patient"]["patience"], training["patient"]["validate_every"]) == (2, 3)
    assert records["v6/run-navigator"]["fingerprints"].keys() >= {"r2r/LAR2R_train.json"}
    [plugin] = records["v6/run-plugin"]["plugins"]
    assert Path(plugin).name == PLUGIN.name
    assert not Path(plugin).is_relative_to(BEFORE), "it lies elsewhere now"


def test_a_run_with_a_plugin_says_which_it_needs(
    data: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    run = copied("v6/run-plugin", tmp_path)
    record = read_json(run / "run.json")
    (run / "run.json").write_text(json.dumps({**record, "plugins": [str(tmp_path / PLUGIN.name)]}))
    for verb in (("train", "--resume", run, "--data", data), ("evaluate", run, "--data", data)):
        outcome = called(*verb)
        [line] = outcome.err.splitlines()
        assert outcome.code == 2
        assert f"the plugin {tmp_path / PLUGIN.name}" in line
        assert "--plugin" in line


def test_a_cache_of_before_does_no_harm(data: Path, tmp_path: Path, cache: Path) -> None:
    """Whether its entries are still of use or not; nor does an entry of a kind that nobody knows."""
    cache.mkdir()
    for packed in (BEFORE / "v1" / "cache").iterdir():
        (cache / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    shutil.copy(next(cache.iterdir()), cache / f"atlas-{'0' * 32}.safetensors")
    check_scores(scores(copied("v1/run-r2r", tmp_path), data), "v1/run-r2r")


@pytest.mark.parametrize("kind", ["tensors without facts", "no tensors"])
def test_a_cache_entry_of_another_kind_is_built_again(data: Path, tmp_path: Path, cache: Path, kind: str) -> None:
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
    check_scores(scores(run, data), "v1/run-r2r")
    assert sorted(cache.glob("*.safetensors")) == entries
    assert all(path.read_bytes() != content for path, content in planted.items())


def write_word_labels(house: Path) -> None:
    """Word labels for a generated house: an instruction's words are shared out over the viewpoints of its path."""
    labels = dict[str, dict[str, dict[str, dict[str, list[int]]]]]()
    for item in json.loads((house / "r2r" / "R2R_train.json").read_text()):
        path = labels[str(item["path_id"])] = {viewpoint: {} for viewpoint in item["path"]}
        for number, text in enumerate(item["instructions"]):
            words, hops = len(re.findall(r"\w+|[^\w\s]", text)), len(path)
            for hop, viewpoint in enumerate(path):
                due = list(range(words * hop // hops, words * (hop + 1) // hops))
                path[viewpoint][str(number)] = {"action": due[:2], "landmark": due[2:]}
    (house / "r2r" / "LAR2R_train.json").write_text(json.dumps(labels))


def copied(name: str, folder: Path) -> Path:
    return shutil.copytree(BEFORE / name, folder / name)


def plugin_of(name: str) -> tuple[object, ...]:
    """The option that gives a run its plugin, which was recorded where it no longer lies."""
    return ("--plugin", PLUGIN) if name == "v6/run-plugin" else ()


def scores(run: Path, data: Path) -> dict[str, Any]:
    if "speaker" in run.name:
        draw = ("--split", "r2r/val_unseen", "--score", "--decoding", "nucleus", "--json")
        outcome = called("speak", run, "--data", data, *draw)
    else:
        plugin = plugin_of(f"{run.parent.name}/{run.name}")
        outcome = called("evaluate", run, "--data", data, "--splits", "val_unseen", "--json", *plugin)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    return found if "speaker" in run.name else next(iter(found.values()))


def check_scores(found: dict[str, Any], name: str) -> None:
    """What was told before is told still; more may be told by now."""
    expected, exact = expectation(name)
    told = {score: found[score] for score in expected["scores"]}
    assert told == expected["scores"] if exact else told == pytest.approx(expected["scores"])


def expectation(name: str) -> tuple[dict[str, Any], bool]:
    """What is expected of a run, to the last bit where one of the machines that it was recorded on rounds as this."""
    version, run = name.split("/")
    made = {each["rounding"]: each["runs"][run] for each in map(read_json, (BEFORE / version).glob("expected*.json"))}
    if (here := rounding()) in made:
        return made[here], True
    return read_json(BEFORE / version / "expected.json")["runs"][run], False


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def weights_digest(folder: Path) -> str:
    """Of a folder's weights, by shape and content: names and order may change."""
    tensors = load_file(folder / "model.safetensors").values()
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
