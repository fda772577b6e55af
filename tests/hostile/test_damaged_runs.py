"""Runs that somebody has damaged, or shares with another process, end in one line and lose nothing."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import vlnbert.learning.run_folder
from tests.learning.samples import CONFIG, in_use, trainer
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.callbacks import read_log
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.run_folder import TRAINER, last_checkpoint, read_progress
from vlnbert.learning.trainer import TrainingError
from vlnbert.navigator.storage.folder import read_safetensors

MOMENT = "optimiser.backbone.embeddings.words.weight"
SHORT = replace(CONFIG, iterations=4, keep=1)  # with two checkpoints it would go on from the one before


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("damage") / "run"
    trainer(house, run, SHORT).train()
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.parametrize(
    "damage", ["misshapen", "twice", "stray", "missing", "unknown", "empty", "no number", "NaN", "int32"]
)
def test_moments_of_other_weights_are_refused(house: Path, run: Path, damage: str) -> None:
    path = last_checkpoint(run) / TRAINER
    with safe_open(path, framework="pt") as file:
        tensors, header = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    if damage == "misshapen":
        tensors[f"{MOMENT}.exp_avg"] = torch.zeros(3)
    elif damage == "twice":
        tensors["optimiser.0.exp_avg"] = torch.zeros_like(tensors[f"{MOMENT}.exp_avg"])
    elif damage == "stray":
        tensors[f"{MOMENT}.exp_avg".removeprefix("optimiser.")] = tensors.pop(f"{MOMENT}.exp_avg")
    elif damage == "missing":
        del tensors[f"{MOMENT}.exp_avg_sq"]
    elif damage == "unknown":
        tensors[f"{MOMENT}.momentum"] = torch.zeros(3)
    elif damage == "empty":
        tensors = {}
    elif damage in ("NaN", "int32"):
        moment = tensors[f"{MOMENT}.exp_avg"]
        tensors[f"{MOMENT}.exp_avg"] = moment.int() if damage == "int32" else moment * torch.nan
    else:
        header = {"progress": '{"iteration": "4", "best": null, "best_iteration": null}'}
    save_file(tensors, path, header)
    (path.parent / "digests.json").unlink()
    with pytest.raises(DataError, match="is not whole; begin the training anew"):
        trainer(house, run, SHORT).resume()


NO_PROGRESS = {
    "nested": "[" * 200_000,
    "far": '{"iteration": 1000000000000000000000000000000, "best": null, "best_iteration": null}',
    "negative": '{"iteration": -5, "best": null, "best_iteration": null}',
    "no number": '{"iteration": 4, "best": NaN, "best_iteration": 4}',
    "too large": f'{{"iteration": 4, "best": 1{"0" * 400}, "best_iteration": 4}}',
    "far ahead": '{"iteration": 4, "best": 0.5, "best_iteration": 10000000000}',
    "no time": '{"iteration": 4, "best": 0.5, "best_iteration": null}',
}


@pytest.mark.parametrize("kind", NO_PROGRESS)
def test_a_header_that_no_run_writes_is_refused(house: Path, run: Path, kind: str) -> None:
    """Without a pointer, which would tell the same again."""
    path = last_checkpoint(run) / TRAINER
    tensors, _ = read_safetensors(path)
    save_file(tensors, path, {"progress": NO_PROGRESS[kind]})
    (path.parent / "digests.json").unlink()
    with pytest.raises(DataError, match="is not whole; begin the training anew"):
        trainer(house, run, SHORT).resume()
    (run / "last.json").unlink()
    with pytest.raises(DataError, match=r"holds no whole checkpoint, and last\.json is missing"):
        read_progress(run)


def test_a_pipe_in_place_of_a_checkpoint_is_not_waited_for(house: Path, run: Path) -> None:
    path = last_checkpoint(run) / TRAINER
    path.unlink()
    os.mkfifo(path)
    (run / "last.json").unlink()
    for read in (lambda: read_progress(run), trainer(house, run, SHORT).resume):
        with pytest.raises(DataError, match=r"holds no whole checkpoint, and last\.json is missing"):
            read()


def test_a_disk_that_is_full_from_the_beginning(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no checkpoint yet that could be promised."""

    def fill(*_: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(vlnbert.learning.run_folder, "save_file", fill)
    with pytest.raises(DataError, match=r"0000000: cannot be written \(No space .*\); free some space and resume$"):
        trainer(house, tmp_path / "run", SHORT).train()


def test_a_pointer_leads_nowhere_else(house: Path, run: Path) -> None:
    (run / "last.json").write_text('{"checkpoint": "../../elsewhere"}')
    with pytest.raises(DataError, match="the checkpoint is missing"):
        trainer(house, run, SHORT).resume()


def test_weights_that_are_no_numbers_are_not_saved(house: Path, run: Path) -> None:
    one = trainer(house, run, replace(SHORT, iterations=6))
    one.resume()
    with torch.no_grad():  # nothing that a loss is made of here, so that only a look at the weights can tell
        one.model.backbone.embeddings.words.weight[-1].fill_(torch.nan)
    with pytest.raises(
        TrainingError, match=r"no longer numbers after update 6; .* begin another run with a lower learning rate"
    ):
        one.train()
    assert last_checkpoint(run).name == "0000004"


def test_two_cannot_train_in_one_folder(house: Path, run: Path) -> None:
    with in_use(run), pytest.raises(DataError, match="is in use by another process"):
        trainer(house, run, SHORT).train()
    trainer(house, run, SHORT).train()


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"learning_rate": float("inf")},
        {"weight_decay": -1.0},
        {"grad_clip": 0.0},
        {"grad_clip": float("nan")},
        {"warmup": -5},
        {"patience": -1},
        {"seed": 10**30},
        {"seed": -1},
        {"batch": 3},
        {"iterations": 0},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        TrainConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"imitation": -1.0}, {"discount": 5.0}, {"value": float("nan")}])
def test_weights_of_the_objective_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        ObjectiveConfig(**settings)


def test_what_is_no_line_of_a_log_is_passed_over(tmp_path: Path) -> None:
    line = '{"iteration": 10, "total": 1.0, "imitation": 1.0, "value": 0.5}'
    junk = ['["a"]', '"text"', '{"iteration": "x", "total": 1}', '{"iteration": 5}', "{cut", "\\xff"]
    junk += ['{"iteration": 6, "scores": {"r2r/val_unseen": {"sr": [0.5]}}}', '{"iteration": 7, "scores": [1]}']
    (tmp_path / "log.jsonl").write_bytes("\n".join([*junk, line]).encode() + b"\n\xff\xfe\n")
    assert [found["iteration"] for found in read_log(tmp_path / "log.jsonl")] == [10]
