"""Learning which words are due: where labels are, the same after a resumption, with any tokenizer and in a mirror."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.learning.samples import CONFIG, EXPERIMENT, SCORED, SHAPE, Watcher, same, weights
from tests.learning.test_trainer_flip import begun, learn, mirrored, retold, stop_after
from tests.navigator.encoders import FAMILIES, save_encoder
from vlnbert.data.data import open_data
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError
from vlnbert.features.spec import FeatureSpec
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.losses import Alignment
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.rollout.policy import as_policy
from vlnbert.sources.instructions import split_words
from vlnbert.tasks.batches import Batch

LABELS = "r2r/LAR2R_train.json"
TRAINING = replace(CONFIG, iterations=6, objective=ObjectiveConfig(alignment=1.0))
ALIGNED = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=TRAINING)


def parts_of(trainer: Trainer) -> dict[int, dict[str, float]]:
    """Train to the end; the parts of the loss of every update."""
    watcher = Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    return watcher.losses


@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_a_run_with_word_labels_resumes_with_the_same_bits(labelled_house: Path, tmp_path: Path, flip: float) -> None:
    training, data = replace(TRAINING, flip=flip), open_data(labelled_house)
    experiment = replace(ALIGNED, features=FeatureSpec(views="detections"), training=training)
    for parts in parts_of(begin_run("mine", experiment, data, tmp_path / "whole")).values():
        assert parts["alignment"] > 0
    first = begin_run("mine", experiment, data, tmp_path / "halves")
    stop_after(first, 3)  # between two validations
    first.train()
    assert first.progress.iteration == 3
    torch.rand(3)
    second = resume_run(tmp_path / "halves")
    second.train()
    assert second.progress.iteration == 6
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))
    plain = replace(experiment, training=replace(training, objective=ObjectiveConfig()))
    begin_run("mine", plain, data, tmp_path / "plain").train()
    assert not same(weights(tmp_path / "whole"), weights(tmp_path / "plain")), "labels are learned from"


def test_other_labels_do_not_resume_a_run(labelled_house: Path, tmp_path: Path) -> None:
    house = shutil.copytree(labelled_house, tmp_path / "house")
    begin_run("mine", ALIGNED, open_data(house), tmp_path / "run")
    labels = json.loads((house / LABELS).read_text())
    labels.popitem()
    (house / LABELS).write_text(json.dumps(labels))
    with pytest.raises(DataError, match=f"{LABELS} changed since the run began; give the data it began with"):
        resume_run(tmp_path / "run")
    resume_run(tmp_path / "run", open_data(labelled_house))


def test_without_a_weight_labels_are_not_read(labelled_house: Path, finished: Path, tmp_path: Path) -> None:
    """Whatever the file holds, the same is learned as where there is none, to the last bit."""
    house = shutil.copytree(labelled_house, tmp_path / "house")
    (house / LABELS).write_text("{")
    found = parts_of(begin_run("mine", EXPERIMENT, open_data(house), tmp_path / "run"))
    assert {parts["alignment"] for parts in found.values()} == {0.0}
    assert same(weights(finished), weights(tmp_path / "run"))
    assert LABELS not in read_record(tmp_path / "run").fingerprints


def test_updates_of_other_splits_have_no_labels(labelled_house: Path, tmp_path: Path) -> None:
    experiment = replace(ALIGNED, train_on=("r2r/val_seen", "r2r/train"))
    found = parts_of(begin_run("mine", experiment, open_data(labelled_house), tmp_path))
    assert [parts["alignment"] > 0 for parts in found.values()] == [False, True] * 3


def test_parts_that_are_cut_from_train_have_labels(labelled_house: Path, tmp_path: Path) -> None:
    """Not those of a file, of which nobody knows where they come from."""
    house, parts = shutil.copytree(labelled_house, tmp_path / "house"), "r2r/sub_instructions"
    experiment = replace(ALIGNED, train_on=(parts, "r2r/train"))
    found = parts_of(begin_run("mine", experiment, open_data(house), tmp_path / "cut"))
    assert all(losses["alignment"] > 0 for losses in found.values())
    vln.augment_sub_instructions(house, house / "r2r/R2R_sub_instructions.json")
    found = parts_of(begin_run("mine", experiment, open_data(house), tmp_path / "read"))
    assert [losses["alignment"] > 0 for losses in found.values()] == [False, True] * 3


def test_what_does_not_fit_is_told_when_a_run_begins(labelled_house: Path, tmp_path: Path) -> None:
    house, told = shutil.copytree(labelled_house, tmp_path / "house"), list[str]()
    labels = json.loads((house / LABELS).read_text())
    name, path = next(iter(labels.items()))
    first = next(iter(path))
    labels[name] = {"nowhere": {"0": {"action": [0]}}, first: {"0": {"action": [0, 9999]}}}
    (house / LABELS).write_text(json.dumps(labels))
    begin_run("mine", ALIGNED, open_data(house), tmp_path / "run", tell=told.append)
    texts = len(next(item for item in items(house) if str(item["path_id"]) == name)["instructions"])
    assert [line for line in told if "label" in line] == [
        f"r2r/train: {texts - 1} instructions have no word labels",
        "r2r/train: 1 labelled viewpoints are not on the path, and are left out",
        "r2r/train: 1 labelled words are beyond the end of the instruction, and are left out",
    ]


def items(house: Path) -> list[dict[str, list[str]]]:
    return json.loads((house / "r2r" / "R2R_train.json").read_text())


def test_labels_of_which_none_fits_are_refused(labelled_house: Path, tmp_path: Path) -> None:
    house, path = shutil.copytree(labelled_house, tmp_path / "house"), tmp_path / "house" / LABELS
    path.write_text('{"0": {"nowhere": {"0": {"action": [0]}}}}')
    problem = f"^{path}: no label is of a word that the navigator reads in r2r/train; do without: alignment=0"
    with pytest.raises(DataError, match=problem):
        begin_run("mine", ALIGNED, open_data(house), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_s_own_tokens_are_found_in_the_text(labelled_house: Path, tmp_path: Path, family: str) -> None:
    """WordPiece, BPE and Unigram: the pieces that are due at the start cover the first two words, and no other."""
    settings = {"encoder": str(save_encoder(tmp_path / family, family))}
    shape = replace(SHAPE, backbone="huggingface", backbone_settings=settings)
    experiment = replace(ALIGNED, navigator=shape, max_tokens=100, training=replace(TRAINING, iterations=2))
    trainer = begin_run("mine", experiment, open_data(labelled_house), tmp_path / "run")
    [split] = trainer.batches.splits
    for row, text in enumerate(split.episodes.texts):
        spans = trainer.model.tokenizer.encode(text).offsets
        due = [spans[place] for place in split.aligned[row, 0].nonzero().flatten().tolist()]
        covered = {place for begin, end in due for place in range(begin, end) if not text[place].isspace()}
        assert covered == {place for word in list(split_words(text))[:2] for place in range(*word)}
    assert all(parts["alignment"] > 0 for parts in parts_of(trainer).values())


def attended(one: Trainer, environment: Environment, flip: float, batch: Batch, key: torch.Tensor) -> torch.Tensor:
    """What attending elsewhere than to the words that are due costs at each step of a batch."""
    rollout = learn(one, environment, flip, batch, key).rollout
    return Alignment(one.config, as_policy(one.model))(rollout, batch)


def test_words_keep_their_places_in_a_mirror(labelled_house: Path, tmp_path: Path) -> None:
    one = begun(labelled_house, tmp_path, training=replace(TRAINING, batch=16))
    batch, key = one.batches[0]
    there = replace(batch, heading=-batch.heading, tokens=retold(one, batch.tokens))
    changed = batch.aligned.any(dim=1) & (there.tokens != batch.tokens)
    assert changed.any(), "left and right are among those words"
    flipped = attended(one, one.environment, 1.0, batch, key)
    built = attended(one, mirrored(one.environment), 0.0, there, key)
    plain = attended(one, one.environment, 0.0, batch, key)
    torch.testing.assert_close(flipped, built, rtol=1e-4, atol=1e-5)
    assert flipped.shape != plain.shape or not torch.allclose(flipped, plain, rtol=1e-4, atol=1e-5)
