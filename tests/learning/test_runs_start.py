"""What becomes of a shape where data or weights decide: applied, told or refused by name, and recorded."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from tests.learning.samples import SCORED, SHAPE
from vlnbert.api.training import changed_preset
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.run_record import RECORD_FORMAT
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.weights.exporting import published_state_dicts

EXPERIMENT = Experiment(
    validate_on=(SCORED,),
    navigator=SHAPE,
    training=TrainConfig(iterations=2, batch=4, validate_every=2, max_steps=5),
)


def begun(house: Path, run: Path, told: list[str] | None = None, **changes: Any) -> Trainer:
    preset = changed_preset(EXPERIMENT, changes)
    tell = [].append if told is None else told.append
    return begin_run("mine", preset.experiment, open_data(house), run, tell=tell, asked=preset.asked)


@pytest.fixture(scope="module")
def earlier(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("start") / "earlier"
    begun(house, run).train()
    return run


@pytest.fixture
def bert(house: Path, tmp_path: Path) -> Path:
    """A BERT of four layers and two heads, which its config.json tells, with the house's vocabulary."""
    tokenizer = open_data(house).tokenizer
    config = replace(
        SHAPE, backbone="one-stream", layers=4, cross_layers=0, vocabulary=tokenizer.get_vocab_size(), positions=64
    )
    model, _, _ = published_state_dicts(config, Navigator(config).state_dict(), {})
    folder = tmp_path / "bert"
    folder.mkdir()
    state = {name.removeprefix("vln_bert."): one for name, one in model.items() if name.startswith("vln_bert.bert.")}
    save_file({name: one.contiguous() for name, one in state.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": config.heads}))
    shutil.copy(house / "vocab.txt", folder / "vocab.txt")
    return folder


def test_the_shape_that_was_trained_is_recorded(house: Path, earlier: Path) -> None:
    recorded = read_record(earlier).experiment.navigator
    assert recorded == Navigator.from_pretrained(earlier / "best").config
    data = open_data(house)
    assert (recorded.feature_width, recorded.object_width) == (data.view_bank.width, 0)
    assert recorded.vocabulary == data.tokenizer.get_vocab_size() != SHAPE.vocabulary


DECIDED_BY_DATA = [("feature_width", 5), ("vocabulary", 7), ("navigator.object_width", 3)]


@pytest.mark.parametrize(("name", "value"), DECIDED_BY_DATA)
def test_what_the_data_decides_is_refused_by_name(house: Path, tmp_path: Path, name: str, value: int) -> None:
    expected = rf"^{name.rpartition('.')[2]} is {value}, but the data decided on \d+; leave it out$"
    with pytest.raises(UsageError, match=expected):
        begun(house, tmp_path / "run", **{name: value})
    assert not (tmp_path / "run").exists()


def test_what_the_data_has_anyway_may_be_said(house: Path, tmp_path: Path) -> None:
    width = open_data(house).view_bank.width
    assert begun(house, tmp_path / "run", feature_width=width).model.config.feature_width == width


DECIDED_BY_WEIGHTS = [
    ("layers", 3),
    ("hidden", 48),
    ("matching", "off"),
    ("backbone", "one-stream"),
    ("critic_width", 64),
    ("angle_width", 4),
]


@pytest.mark.parametrize(("name", "value"), DECIDED_BY_WEIGHTS)
def test_what_an_earlier_run_decides_is_refused_by_name(
    house: Path, earlier: Path, tmp_path: Path, name: str, value: Any
) -> None:
    with pytest.raises(UsageError, match=f"^{name} is {value}, but the weights to start from decided on .*; leave it"):
        begun(house, tmp_path / "run", start=str(earlier), **{name: value})
    assert not (tmp_path / "run").exists()


def test_a_backbone_to_start_from_keeps_its_settings(house: Path, earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^backbone_settings is \{'depth': 5\}, but the weights to start from decided"
    ):
        begun(house, tmp_path / "run", start=str(earlier), backbone_settings={"depth": 5})


def test_even_what_the_preset_has_is_refused_when_said(house: Path, tmp_path: Path, bert: Path) -> None:
    """Here the weights have four layers; the experiment's own two are not asked for until somebody says so."""
    assert EXPERIMENT.navigator.hidden == 24
    wide = replace(EXPERIMENT, navigator=replace(SHAPE, hidden=12, heads=2))
    preset = changed_preset(replace(changed_preset("demo", {}), experiment=wide), {"start": str(bert)})
    assert preset.asked == ("start",)
    free = begin_run("mine", preset.experiment, open_data(house), tmp_path / "free", asked=preset.asked)
    assert free.model.config.hidden == 24
    said = changed_preset(preset, {"hidden": 12})
    with pytest.raises(UsageError, match=r"^hidden is 12, but the weights to start from decided on 24"):
        begin_run("mine", said.experiment, open_data(house), tmp_path / "said", asked=said.asked)


@pytest.mark.parametrize("change", [1, -130], ids=["one too many", "half of it"])
def test_a_vocabulary_of_other_weights_is_refused_before_a_folder_is_made(
    house: Path, tmp_path: Path, change: int
) -> None:
    """Weights without a vocabulary of their own read by the data's, which must be theirs."""
    rows = open_data(house).tokenizer.get_vocab_size() - change
    width = open_data(house).view_bank.width
    Navigator(replace(SHAPE, vocabulary=rows, feature_width=width)).save_pretrained(tmp_path / "weights")
    with pytest.raises(DataError) as caught:
        begun(house, tmp_path / "run", start=str(tmp_path / "weights"))
    problem = f"vocab.txt: has {rows + change} word pieces, but the weights have embeddings for {rows}; give the"
    assert problem in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_beyond_the_embedding_is_refused_before_a_folder_is_made(
    house: Path, earlier: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(earlier / "best", tmp_path / "weights"))
    (folder / "digests.json").unlink()
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["vocab"]["beyond"] = len(document["model"]["vocab"])
    (folder / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"tokenizer.json: has .* word pieces, but the weights have embeddings for"):
        begun(house, tmp_path / "run", start=str(folder))
    assert not (tmp_path / "run").exists()


def test_layers_of_a_bert_may_be_chosen(house: Path, tmp_path: Path, bert: Path) -> None:
    """Also by a run that was killed before its first checkpoint."""
    begun(house, tmp_path / "run", start=str(bert), layers=1, cross_layers=3, heads=4)
    for config in (resume_run(tmp_path / "run").model.config, read_record(tmp_path / "run").experiment.navigator):
        assert (config.layers, config.cross_layers, config.heads) == (1, 3, 4)
    with pytest.raises(UsageError, match=r"^layers=9 is more than the 4 that "):
        begun(house, tmp_path / "more", start=str(bert), layers=9)


def test_what_a_navigator_to_start_from_keeps_is_told(house: Path, earlier: Path, tmp_path: Path) -> None:
    """Where the preset alone has it otherwise."""
    told: list[str] = []
    visual = replace(EXPERIMENT, start=str(earlier), navigator=replace(SHAPE, matching="visual"))
    one = begin_run("mine", visual, open_data(house), tmp_path / "run", tell=told.append)
    assert one.model.config.matching == "cross-modal"
    expected = "matching stays cross-modal, as in the weights to start from; the experiment has visual"
    assert told == [expected]
    assert read_record(tmp_path / "run").experiment.navigator.matching == "cross-modal"


def test_old_records_still_begin(house: Path, tmp_path: Path) -> None:
    """Those of format 2, killed before their first checkpoint, have the shape that was asked for."""
    begun(house, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    values = json.loads(path.read_text())
    assert values.pop("format") == RECORD_FORMAT
    del values["asked"]
    values["experiment"]["navigator"] |= {"feature_width": 2048, "vocabulary": 30522}
    path.write_text(json.dumps({**values, "format": 2}))
    assert resume_run(tmp_path / "run").model.config.feature_width == open_data(house).view_bank.width


SCORED_OBJECTS = "reverie/val_unseen"
REVERIE = {"train_on": "reverie/train", "validate_on": SCORED_OBJECTS, "best_on": SCORED_OBJECTS}
UNUSED = [
    ({"features.objects": "names"}, "objects was chosen, but r2r shows no objects; leave it out"),
    ({"max_objects": 3}, "max_objects was chosen, but r2r shows no objects; leave it out"),
    (
        {**REVERIE, "features.objects": "off", "max_objects": 3},
        "max_objects was chosen, but objects is off; leave it out",
    ),
    (
        {**REVERIE, "features.objects": "off", "features.object_width": 3},
        "object_width was chosen, but objects is off; leave it out",
    ),
    ({"encoder": "bert"}, "encoder was chosen, but no captions or names are read; leave it out"),
    ({"holdout_seed": 3}, r"holdout_seed was chosen, but no houses are kept out \(holdout=6 does\); leave it out"),
]


@pytest.mark.parametrize(("changes", "expected"), UNUSED)
def test_what_nobody_would_look_at_is_refused(
    house: Path, tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=f"^{expected}$"):
        begun(house, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()
