"""Runs in folders: begun where nothing is lost, resumed where the data is what it was, from anywhere."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
import torch

from tests.learning.samples import EXPERIMENT, SCORED, SHAPE, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.features.spec import CAPTIONS, FeatureSpec
from vlnbert.learning import navigator_recipe as starting
from vlnbert.learning.run_folder import best_weights, is_run, last_checkpoint
from vlnbert.learning.runs import begin_run, fingerprints, read_record, resume_run
from vlnbert.navigator import Backbone, Navigator, NavigatorConfig
from vlnbert.navigator.storage import folder
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.batches import load_tokenizer


@pytest.fixture
def data(house: Path, tmp_path: Path) -> Path:
    """A copy of the house, to be changed."""
    return shutil.copytree(house, tmp_path / "data")


def test_a_run_says_what_it_is(house: Path, finished: Path) -> None:
    record = read_record(finished)
    assert (record.preset, record.data, record.experiment) == (
        "mine",
        str(house),
        replace(EXPERIMENT, navigator=Navigator.from_pretrained(finished / "best").config),
    )
    read = ["connectivity", "vocab.txt", "r2r/R2R_train.json", "r2r/R2R_val_unseen.json", "features"]
    assert list(record.fingerprints) == read
    assert is_run(finished)
    assert not is_run(house)


def test_another_run_is_not_overwritten(house: Path, finished: Path) -> None:
    before = (finished / "run.json").read_text()
    with pytest.raises(DataError, match=rf"holds a run of mine; resume it with: vlnbert train --resume {finished}"):
        begin_run("other", EXPERIMENT, open_data(house), finished)
    assert (finished / "run.json").read_text() == before


def test_a_folder_in_use_is_refused(house: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for name, problem in {"used": "the folder is not empty", "file": "is not a folder"}.items():
        with pytest.raises(DataError, match=rf"^{tmp_path / name}: {problem}; choose a new folder"):
            begin_run("mine", EXPERIMENT, open_data(house), tmp_path / name)
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["thesis.txt"]


def test_an_empty_folder_will_do(house: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    begin_run("mine", EXPERIMENT, open_data(house), tmp_path / "empty")
    assert is_run(tmp_path / "empty")


def test_what_cannot_begin_leaves_nothing(house: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such data folder"):
        begin_run("mine", EXPERIMENT, open_data(tmp_path / "nowhere"), tmp_path / "run")
    for change in ({"train_on": ("r2r/test",)}, {"validate_on": (SCORED, "r2r/test")}):
        with pytest.raises(UsageError, match="r2r/test withholds its goals"):
            begin_run("mine", replace(EXPERIMENT, **change), open_data(house), tmp_path / "run")
    with pytest.raises(UsageError, match="'r2r' does not name a task and a split"):
        begin_run("mine", replace(EXPERIMENT, train_on=("r2r",)), open_data(house), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def spoil_graph(data: Path) -> None:
    path = next((data / "connectivity").glob("*.json"))
    path.write_text(path.read_text() + " ")


def spoil_instructions(data: Path) -> None:
    path = data / "r2r" / "R2R_train.json"
    path.write_text(path.read_text().replace("turn", "run"))


def spoil_features(data: Path) -> None:
    with h5py.File(open_folder(data).feature_files()[0], "r+") as file:
        next(iter(file.values()))[0, 0] += 1


@pytest.mark.parametrize(
    ("spoil", "named"),
    [(spoil_graph, "connectivity"), (spoil_instructions, "r2r/R2R_train.json"), (spoil_features, "features")],
)
def test_changed_data_is_noticed_and_named(run: Path, data: Path, spoil: Callable[[Path], None], named: str) -> None:
    spoil(data)
    with pytest.raises(DataError, match=rf"^{data}: {named} changed since the run began; give the data it began with"):
        resume_run(run, open_data(data))


def test_captions_count_where_they_are_looked_at(data: Path) -> None:
    seeing = replace(EXPERIMENT, features=FeatureSpec(views=CAPTIONS))
    before = [fingerprints(experiment, open_folder(data)) for experiment in (EXPERIMENT, seeing)]
    path = next((data / "captions").glob("*.json"))
    path.write_text(path.read_text() + " ")
    after = [fingerprints(experiment, open_folder(data)) for experiment in (EXPERIMENT, seeing)]
    assert after[0] == before[0]
    assert {name for name in before[1] if before[1][name] != after[1][name]} == {"captions"}


def test_data_may_lie_elsewhere(finished: Path, run: Path, data: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "last.json").unlink()  # as if killed before the first checkpoint
    trainer = resume_run(run, open_data(data))
    assert trainer.progress.iteration == 0
    trainer.train()
    assert same(weights(finished), weights(run))


def test_a_finished_run_is_left_as_it_is(finished: Path, run: Path) -> None:
    trainer = resume_run(run)
    trainer.train()
    assert trainer.progress == resume_run(finished).progress
    assert same(weights(finished), weights(run))


def test_runs_resume_from_anywhere(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.parent)
    features = open_folder(house).feature_files()[0].relative_to(house.parent)
    begin_run(
        "mine",
        replace(EXPERIMENT, features=FeatureSpec(views=str(features))),
        open_data(Path("house")),
        tmp_path / "run",
    )
    monkeypatch.chdir(tmp_path)
    assert resume_run(tmp_path / "run").progress.iteration == 0


@pytest.mark.parametrize("pointer", ['{"checkpoint": "0000003"}', "[]", '"0000003"', "{}", "9" * 400])
def test_a_missing_checkpoint_is_told(run: Path, pointer: str) -> None:
    (run / "last.json").write_text(pointer)
    with pytest.raises(DataError, match="the checkpoint is missing; begin the training anew in another folder"):
        resume_run(run)


def test_a_damaged_pointer_is_told(run: Path) -> None:
    (run / "last.json").write_text('{"checkpoint": ')
    with pytest.raises(DataError, match=r"is not whole JSON .*; remove it to go on from the newest"):
        resume_run(run)


def test_weights_of_another_shape_are_told(run: Path) -> None:
    path = last_checkpoint(run) / "config.json"
    path.with_name("digests.json").unlink()
    path.write_text(path.read_text().replace(f'"inner": {SHAPE.inner}', f'"inner": {2 * SHAPE.inner}'))
    with pytest.raises(DataError, match=r"model.safetensors: does not fit its config.json: .* begin the training anew"):
        resume_run(run)


def test_a_checkpoint_of_a_newer_format_asks_for_a_newer_program(run: Path) -> None:
    """Nothing is damaged, so nothing need begin anew."""
    path = last_checkpoint(run) / "config.json"
    path.with_name("digests.json").unlink()
    path.write_text(path.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(DataError, match=rf"^{path}: is of format 99, .*; upgrade with: pip install --upgrade vlnbert$"):
        resume_run(run)


def test_to_resume_reads_the_weights_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, real = list[tuple[str, str]](), folder.safe_open

    def safe_open(path: Path, framework: str) -> object:
        opened.append((path.name, framework))
        return real(path, framework=framework)

    monkeypatch.setattr(folder, "safe_open", safe_open)
    trainer = resume_run(run)
    read = sorted(name for name, framework in opened if framework == "pt")  # headers are looked at by numpy
    assert read == ["model.safetensors", "trainer.safetensors"]
    assert same(trainer.model.state_dict(), weights(run))
    assert trainer.model.tokenizer is not None


@pytest.mark.parametrize("name", ["trainer.safetensors", "model.safetensors", "config.json", "tokenizer.json"])
def test_a_cut_checkpoint_is_told(run: Path, name: str) -> None:
    path = last_checkpoint(run) / name
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=rf"^{path}: .*is not "):
        resume_run(run)
    path.with_name("digests.json").unlink()
    with pytest.raises(DataError, match=rf"^{path}: .*is not .*; begin the training anew in another folder"):
        resume_run(run)


def test_without_a_best_the_last_is_the_best(run: Path) -> None:
    assert best_weights(run) == run / "best"
    shutil.rmtree(run / "best")
    assert best_weights(run) == last_checkpoint(run)


def test_real_and_augmented_batches_alternate(data: Path, tmp_path: Path) -> None:
    """The paper's recipe: R2R's own instructions and those that a speaker made, in turn."""
    tokenizer = load_tokenizer(data / "vocab.txt")
    items = json.loads((data / "r2r" / "R2R_train.json").read_text())[:6]
    made = [
        {
            **item,
            "path_id": f"aug_{number}",
            "instructions": item["instructions"][:1],
            "instr_enc": [*tokenizer.encode(item["instructions"][0]).ids, 0, 0],
        }
        for number, item in enumerate(items)
    ]
    (data / "r2r" / "prevalent_aug.json").write_text(json.dumps(made))
    experiment = replace(EXPERIMENT, train_on=("r2r/train", "r2r/aug"))
    trainer = begin_run("mine", experiment, open_data(data), tmp_path / "run")
    names = [trainer.batches.split_of(number).name for number in range(4)]
    assert names == ["r2r/train", "r2r/aug"] * 2
    trainer.train()
    assert trainer.progress.iteration == 4
    assert "r2r/prevalent_aug.json" in read_record(tmp_path / "run").fingerprints


def test_a_run_may_start_from_another(house: Path, finished: Path, tmp_path: Path) -> None:
    """From a run's best weights or a navigator's folder; one that saw no objects gets new weights for them."""
    best = Navigator.from_pretrained(finished / "best").state_dict()
    for start in (finished, finished / "best"):
        one = begin_run("mine", replace(EXPERIMENT, start=str(start)), open_data(house), tmp_path / start.name)
        assert all(torch.equal(weight, best[name]) for name, weight in one.model.state_dict().items())
    reverie = replace(
        EXPERIMENT,
        start=str(finished),
        train_on=("reverie/train",),
        validate_on=("reverie/val_unseen",),
        best_on="reverie/val_unseen",
    )
    other = begin_run("mine", reverie, open_data(house), tmp_path / "reverie").model
    assert other.object_embedding is not None
    assert torch.equal(other.state_dict()["view_embedding.project.weight"], best["view_embedding.project.weight"])


def test_a_run_that_validated_nothing_is_a_start_too(house: Path, run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / "best")
    one = begin_run("mine", replace(EXPERIMENT, start=str(run)), open_data(house), tmp_path / "next")
    assert same(one.model.state_dict(), weights(run))


def test_weights_are_drawn_only_where_some_are_new(
    house: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large navigator it takes a second; the dropout is the one that was asked for all the same."""
    made = list[str]()

    class Watched(Navigator):
        def __init__(self, config: NavigatorConfig, backbone: Backbone | None = None) -> None:
            super().__init__(config, backbone)
            made.append(next(self.parameters()).device.type)

    monkeypatch.setattr(starting, "Navigator", Watched)
    start = replace(EXPERIMENT, start=str(finished), navigator=replace(SHAPE, hidden_dropout=0.125))
    one = begin_run("mine", start, open_data(house), tmp_path / "one").model
    assert made[-1] == "meta"
    assert one.config.hidden_dropout == 0.125
    assert 0.125 in {part.p for part in one.modules() if isinstance(part, torch.nn.Dropout)}
    assert {(weight.device.type, weight.dtype) for weight in one.parameters()} == {("cpu", torch.float32)}
    assert all(weight.requires_grad for weight in one.parameters())
    scored = "reverie/val_unseen"
    other = replace(start, train_on=("reverie/train",), validate_on=(scored,), best_on=scored)
    begin_run("mine", other, open_data(house), tmp_path / "other")
    assert made[-1] == "cpu", "the weights for objects are new"


def test_weights_that_see_other_features_are_refused(house: Path, finished: Path, tmp_path: Path) -> None:
    narrow = replace(EXPERIMENT, start=str(finished), features=FeatureSpec(view_width=5))
    with pytest.raises(UsageError, match=r"the views are 5 wide, the navigator to start from sees \d+"):
        begin_run("mine", narrow, open_data(house), tmp_path / "narrow")
    free = begin_run(
        "mine", replace(EXPERIMENT, features=FeatureSpec(view_width=5)), open_data(house), tmp_path / "free"
    )
    assert free.model.config.feature_width == 5


def test_instructions_too_long_to_read_are_refused_at_once(house: Path, tmp_path: Path) -> None:
    short = replace(EXPERIMENT, navigator=replace(EXPERIMENT.navigator, positions=4))
    with pytest.raises(UsageError, match=r"the navigator reads at most 4; cut them: max_tokens=4"):
        begin_run("mine", short, open_data(house), tmp_path / "run")
    assert not (tmp_path / "run").exists()
