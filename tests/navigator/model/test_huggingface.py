"""Encoders of the transformers library as language halves: the same numbers, saved with the navigator, and learning."""

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.learning.samples import CONFIG, SCORED, SHAPE, same
from tests.limits import refusal
from tests.navigator.encoders import FAMILIES, save_encoder
from tests.navigator.model.test_backbone import trains_and_resumes
from tests.navigator.samples import TWO, sight
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError, VlnbertError
from vlnbert.house import generate
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.runs import begin_run
from vlnbert.navigator import Navigator, NavigatorConfig, fast
from vlnbert.navigator.model.huggingface import open_pretrained
from vlnbert.weights.importing import open_navigator

TEXTS = ["walk past the stairs", "walk", "stop near a table, turn left"]


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    yield
    transformers.utils.logging.enable_progress_bar()


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoders") / request.param, request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoders") / "bert", "bert")


def config_for(folder: Path, base: NavigatorConfig = TWO, frozen: bool = False, **change: Any) -> NavigatorConfig:
    settings: dict[str, bool | int | float | str] = {"encoder": str(folder), "frozen": frozen}
    return replace(base, backbone="huggingface", backbone_settings=settings, **change)


def made(folder: Path, **change: Any) -> Navigator:
    torch.manual_seed(0)
    return Navigator(config_for(folder, **change)).eval()


def read(navigator: Navigator, texts: list[str] = TEXTS, more: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens padded with 0, and their mask, as a training makes them."""
    assert navigator.tokenizer is not None
    ids = [navigator.tokenizer.encode(text).ids for text in texts]
    tokens = torch.zeros(len(ids), max(map(len, ids)) + more, dtype=torch.long)
    for row, one in enumerate(ids):
        tokens[row, : len(one)] = torch.tensor(one)
    return tokens, tokens != 0


def outcome(navigator: Navigator, texts: list[str] = TEXTS, more: int = 0, cached: bool = True) -> Tensor:
    instruction = navigator.encode(*read(navigator, texts, more))
    instruction = instruction if cached else instruction.uncached()
    first = navigator.step(instruction.state, instruction, sight(navigator.config, len(texts)))
    then = navigator.step(first.state, first.instruction, sight(navigator.config, len(texts), seed=1))
    return torch.cat((first.state, first.logits, then.state, then.logits), dim=1)


def test_features_are_those_of_the_encoder_itself(folder: Path) -> None:
    navigator, theirs = made(folder), transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)
    expected = theirs(**batch).last_hidden_state
    instruction = navigator.encode(*read(navigator))
    mask = batch["attention_mask"].bool()
    assert torch.equal(instruction.language.mask, mask[:, 1:])
    assert navigator.backbone.to_hidden is None
    found, wanted = instruction.language.features, expected[:, 1:]
    assert torch.equal(found[mask[:, 1:]], wanted[mask[:, 1:]])
    torch.testing.assert_close(instruction.state, navigator.backbone.pooler(expected[:, 0]))


def test_padding_changes_nothing(folder: Path) -> None:
    navigator = made(folder).double()
    torch.testing.assert_close(outcome(navigator, more=7), outcome(navigator))
    together = navigator.encode(*read(navigator))
    for row, text in enumerate(TEXTS):
        alone = navigator.encode(*read(navigator, [text]))
        torch.testing.assert_close(together.state[row], alone.state[0])
        count = alone.language.features.shape[1]
        torch.testing.assert_close(together.language.features[row, :count], alone.language.features[0])


def test_kept_keys_and_values_change_nothing(folder: Path) -> None:
    navigator = made(folder).double()
    torch.testing.assert_close(outcome(navigator), outcome(navigator, cached=False))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_pass_changes_nothing_but_rounding(folder: Path, dtype: torch.dtype | None) -> None:
    navigator = made(folder)
    expected = outcome(navigator)
    with fast.enabled(dtype):
        found = outcome(navigator).float()
    tolerance = 1e-4 if dtype is None else 0.15
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("hidden", [24, 36])
def test_the_folder_alone_opens_it(folder: Path, tmp_path: Path, hidden: int) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "encoder"))
    navigator = made(copied, hidden=hidden)
    assert (navigator.backbone.to_hidden is None) == (hidden == 24)
    navigator.save_pretrained(tmp_path / "saved")
    shutil.rmtree(copied)
    for opened in (Navigator.from_pretrained(tmp_path / "saved"), open_navigator(tmp_path / "saved")):
        assert opened.config == navigator.config
        assert same(navigator.state_dict(), opened.state_dict())
        assert opened.tokenizer.to_str() == navigator.tokenizer.to_str()
        assert torch.equal(outcome(navigator), outcome(opened))


def test_long_instructions_are_those_the_encoder_can_read(folder: Path) -> None:
    positions = made(folder, positions=512).config.positions
    behind_padding = folder.name in ("roberta", "mpnet", "xlm-roberta")
    assert positions == (128 if behind_padding else 130)
    navigator = made(folder, positions=positions)
    navigator.encode(*read(navigator, ["walk" + "k" * (positions - 6)], more=0))
    long = torch.full((1, positions), 5)
    navigator.encode(long, long > 0)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("huggingface") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


@pytest.mark.parametrize(("frozen", "precision"), [(True, "float32"), (False, "float32"), (True, "bfloat16")])
def test_it_learns_and_resumes_with_the_same_bits(
    folder: Path, house: Path, tmp_path: Path, frozen: bool, precision: str
) -> None:
    before, after = trains_and_resumes(house, tmp_path, config_for(folder, SHAPE, frozen=frozen), precision)
    encoder = {name for name in before if name.startswith("backbone.encoder.")}
    assert encoder
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert bool(changed & encoder) is not frozen
    assert {"backbone.cross_layers.0.cross.key.weight", "backbone.pooler.dense.weight"} <= changed
    if not frozen:
        assert {name for name in encoder if "layers.0" in name or "layer.0" in name} & changed


def test_a_training_starts_from_one_that_was_saved(folder: Path, house: Path, tmp_path: Path) -> None:
    data, shape = open_data(house), config_for(folder, SHAPE)
    experiment = Experiment(validate_on=(SCORED,), navigator=shape, training=replace(CONFIG, iterations=1))
    first = begin_run("custom", experiment, data, tmp_path / "first").model
    first.save_pretrained(tmp_path / "saved")
    again = replace(experiment, start=str(tmp_path / "saved"))
    second = begin_run("custom", again, data, tmp_path / "second")
    assert same(first.state_dict(), second.model.state_dict())
    assert second.model.tokenizer.to_str() == first.tokenizer.to_str()
    assert torch.equal(outcome(first.eval()), outcome(second.model.eval()))
    second.train()


def test_tokens_of_another_tokenizer_are_refused(house: Path, bert: Path, tmp_path: Path) -> None:
    """Augmented data brings tokens of a BERT."""
    copied = Path(shutil.copytree(house, tmp_path / "house"))
    items = json.loads((copied / "r2r" / "R2R_train.json").read_text())
    augmented = [{**item, "instructions": item["instructions"][:1], "instr_enc": [3, 5, 6, 2]} for item in items]
    (copied / "r2r" / "prevalent_aug.json").write_text(json.dumps(augmented))
    shape = config_for(bert, SHAPE)
    experiment = Experiment(train_on=("r2r/aug",), validate_on=(SCORED,), navigator=shape, training=CONFIG)
    with pytest.raises(UsageError, match="r2r/aug brings tokens of another tokenizer"):
        begin_run("custom", experiment, open_data(copied), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_frozen_encoder_drops_nothing(bert: Path) -> None:
    navigator = made(bert, frozen=True, hidden_dropout=0.0).train()
    assert navigator.training
    assert not any(module.training for module in navigator.backbone.encoder.modules())
    one, two = (navigator.encode(*read(navigator)).language.features for _ in range(2))
    assert torch.equal(one, two)
    assert not any(weight.requires_grad for weight in navigator.backbone.encoder.parameters())
    trained = made(bert).train().backbone.encoder
    assert all(module.training for module in trained.modules())


def refused(config: NavigatorConfig) -> str:
    with pytest.raises(VlnbertError) as caught:
        Navigator(config)
    (line,) = str(caught.value).splitlines()
    return line


def test_what_is_no_encoder_is_told_in_one_line(bert: Path, tmp_path: Path) -> None:
    assert "needs an encoder" in refused(replace(TWO, backbone="huggingface"))
    assert "is no encoder that transformers can open" in refused(config_for(tmp_path))
    (tmp_path / "navigator").mkdir()
    Navigator(TWO).save_pretrained(tmp_path / "navigator")
    assert "is no encoder that transformers can open" in refused(config_for(tmp_path / "navigator"))
    untold = save_encoder(tmp_path / "untold", "roberta", tokenizer=False)
    assert refused(config_for(untold)).startswith(f"{untold}: has no tokenizer")
    few = save_encoder(tmp_path / "few", "roberta", vocab_size=50)
    assert "its tokenizer has 263 pieces, its encoder 50" in refused(config_for(few))
    (few / "model.safetensors").write_bytes(b"no")
    assert "is no encoder that transformers can open" in refused(config_for(few))
    decoder = transformers.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=9)
    transformers.AutoModel.from_config(decoder).save_pretrained(tmp_path / "t5")
    assert "is a t5, which is no encoder of text" in refused(config_for(tmp_path / "t5"))
    assert "0 cross layers in a huggingface backbone" in refused(config_for(bert, cross_layers=0))
    assert "huggingface knows encoder and frozen" in refused(
        replace(TWO, backbone="huggingface", backbone_settings={"encodr": str(bert)})
    )


UNTRUSTED = {
    "steps that multiply": (
        {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 300_000}},
        "steps that multiply text",
    ),
    "an end that panics": (
        {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 10**9], "cls": ["<s>", 0]}},
        "the token '</s>' at the ends is no piece",
    ),
}


@pytest.mark.parametrize("kind", UNTRUSTED)
def test_a_tokenizer_is_checked_before_anyone_reads_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_encoder(tmp_path / "roberta", "roberta")
    change, expected = UNTRUSTED[kind]
    document = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(document | change))
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)
    assert f"{folder}: is not a tokenizer that is read here ({expected})" in refused(config_for(folder))


def test_numbers_of_pieces_are_checked_before_anyone_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_encoder(tmp_path / "roberta", "roberta")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "b": 2**31}))
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)
    assert "does not number the pieces of a vocabulary" in refused(config_for(folder))


def test_missing_weights_are_told(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "bert", "bert")
    more = save_encoder(tmp_path / "more", "bert", num_hidden_layers=3)
    shutil.copy(more / "config.json", folder / "config.json")
    assert "lacks 16 weights of its encoder, such as encoder.layer.2." in refused(config_for(folder))


def test_weights_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "bert", "bert")
    name = "encoder.layer.1.output.dense.bias"
    sick = load_file(folder / "model.safetensors") | {name: torch.full((24,), torch.nan)}
    save_file(sick, folder / "model.safetensors", {"format": "pt"})
    assert refused(config_for(folder)).startswith(f"{folder}: holds NaN or infinity in {name}")


def test_without_transformers_it_is_one_line(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert refused(config_for(bert)).endswith("needs transformers; pip install vlnbert[transformers]")


def test_a_damaged_description_is_told(bert: Path, tmp_path: Path) -> None:
    made(bert).save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "digests.json").unlink()
    path = tmp_path / "saved" / "config.json"
    path.write_text(path.read_text().replace('\\"model_type\\": \\"bert\\"', '\\"model_type\\": \\"brt\\"'))
    with pytest.raises(DataError, match=r"config\.json: backbone_settings\.encoder_config describes no encoder"):
        Navigator.from_pretrained(tmp_path / "saved")


def test_code_of_strangers_is_never_run(bert: Path) -> None:
    """What transformers is asked for says so, whatever it would do by itself."""
    source = Path(sys.modules["vlnbert.navigator.model.huggingface"].__file__ or "").read_text()
    assert source.count("trust_remote_code=False") == 4
    assert "trust_remote_code=True" not in source
    with pytest.raises(UsageError, match="needs an encoder"):
        Navigator(replace(TWO, backbone="huggingface", backbone_settings={"encoder": ""}))


def test_an_encoder_of_a_million_layers_is_not_built(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "many", "roberta")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"num_hidden_layers": 2**20}))
    assert "of more than 1,000 layers" in refusal(open_pretrained, str(folder))
