"""Pre-trained models as a start: OSCAR, PREVALENT, LXMERT and BERT."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from vlnbert.errors import DataError, UsageError
from vlnbert.navigator import Navigator
from vlnbert.weights.importing import import_weights, inspect_weights, load_weights
from vlnbert.weights.options import ImportOptions

TWO = ImportOptions(backbone="two-stream")


def saved(state: dict[str, Any], tmp_path: Path) -> Path:
    torch.save(state, tmp_path / "pytorch_model.bin")
    return tmp_path / "pytorch_model.bin"


def test_oscar_fills_one_stream(samples: Any, tmp_path: Path) -> None:
    state = samples.oscar()
    imported = load_weights(saved(state, tmp_path), ImportOptions(feature_width=5, angle_width=4))
    report, ours = imported.report, imported.navigator.state_dict()
    assert (report.family, report.config.backbone, report.config.layers) == ("oscar", "one-stream", 3)
    assert set(report.unused) == {name for name in state if "img_embedding" in name or name.startswith("cls.")}
    assert "other inputs" in report.unused["bert.img_embedding.weight"]
    assert set(report.loaded) == set(state) - set(report.unused)
    assert {name.split(".")[0] for name in report.new} == {"view_embedding", "past_decision", "refinement", "critic"}
    key = "bert.encoder.layer.2.output.dense.weight"
    assert torch.equal(ours["backbone.layers.2.feed_forward.outer.weight"], state[key])


def test_prevalent_fills_two_stream(samples: Any, tmp_path: Path) -> None:
    state = samples.prevalent()
    imported = load_weights(saved(state, tmp_path), ImportOptions(feature_width=6, angle_width=8))
    report, ours = imported.report, imported.navigator.state_dict()
    assert (report.family, report.config.layers, report.config.cross_layers) == ("prevalent", 3, 2)
    assert set(report.unused) == {name for name in state if ".lang_" in name or name.startswith("cls.")}
    assert "bert.vision_encoder.visn_fc.weight" in report.loaded
    assert torch.equal(ours["view_embedding.project.weight"], state["bert.vision_encoder.visn_fc.weight"])
    key = "bert.addlayer.1.visual_attention.att.key.bias"
    assert torch.equal(ours["backbone.cross_layers.1.cross.key.bias"], state[key])
    assert torch.equal(
        ours["backbone.layers.2.attention.norm.bias"], state["bert.lalayer.2.attention.output.LayerNorm.bias"]
    )


def test_a_vision_encoder_of_another_width_is_left_out_by_name(samples: Any, tmp_path: Path) -> None:
    report = inspect_weights(saved(samples.prevalent(), tmp_path))
    out = {name: reason for name, reason in report.unused.items() if "vision_encoder" in name}
    assert len(out) == 4
    assert all("16 x 14" in reason and "16 x 2176" in reason for reason in out.values())
    assert {"view_embedding.project.weight", "view_embedding.norm.weight"} <= set(report.new)


@pytest.mark.parametrize("whole", [True, False], ids=["for pre-training", "the model alone"])
def test_lxmert_as_transformers_names_it_fills_two_stream(tmp_path: Path, whole: bool) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    size = {"vocab_size": 30, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.LxmertConfig(**size, l_layers=3, x_layers=2, r_layers=1, visual_feat_dim=7, num_qa_labels=5)
    model = (transformers.LxmertForPreTraining if whole else transformers.LxmertModel)(config)
    model.save_pretrained(tmp_path)
    imported = load_weights(tmp_path, ImportOptions(feature_width=7, angle_width=4))
    report, ours, theirs = imported.report, imported.navigator.state_dict(), model.state_dict()
    prefix = "lxmert." if whole else ""
    assert (report.family, report.config.heads) == ("lxmert", 2)
    assert (report.config.layers, report.config.cross_layers) == (3, 2)
    loaded = [name for name in report.loaded if "x_layers" in name]
    assert len(loaded) == 2 * 26
    assert not [name for name in loaded if "lang_" in name]
    assert any("encoder.visn_fc.visn_fc" in name for name in report.unused)
    for mine, name in (
        ("cross.value.weight", "visual_attention.att.value.weight"),
        ("feed_forward.inner.bias", "visn_inter.dense.bias"),
    ):
        assert torch.equal(ours[f"backbone.cross_layers.1.{mine}"], theirs[f"{prefix}encoder.x_layers.1.{name}"])
    assert torch.equal(ours["backbone.pooler.dense.weight"], theirs[f"{prefix}pooler.dense.weight"])


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_bert_with_and_without_prefix(samples: Any, tmp_path: Path, prefix: str) -> None:
    state = samples.bert(prefix)
    save_file(state, tmp_path / "model.safetensors")
    imported = load_weights(tmp_path, ImportOptions(heads=2))
    ours = imported.navigator.state_dict()
    assert imported.report.family == "bert"
    assert set(imported.report.loaded) == set(state)
    for n in range(3):
        key = f"{prefix}encoder.layer.{n}.intermediate.dense.weight"
        assert torch.equal(ours[f"backbone.layers.{n}.feed_forward.inner.weight"], state[key])


def test_the_first_berts_call_their_norms_otherwise(samples: Any, tmp_path: Path) -> None:
    state = samples.bert("bert.")
    spelled = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {name: tensor for name, tensor in state.items() if "LayerNorm" not in name}
    for name, tensor in state.items():
        for new, former in spelled.items():
            if name.endswith(new):
                old[name.replace(new, former)] = tensor
    imported = load_weights(saved(old, tmp_path))
    assert set(imported.report.loaded) == set(old)
    key = "bert.encoder.layer.1.output.LayerNorm.bias"
    assert torch.equal(imported.navigator.state_dict()["backbone.layers.1.feed_forward.norm.bias"], state[key])


def test_two_stream_has_the_topmost_layers_across(samples: Any, tmp_path: Path) -> None:
    state = samples.bert(layers=4)
    imported = load_weights(saved(state, tmp_path), ImportOptions(backbone="two-stream", layers=3, cross_layers=2))
    ours, report = imported.navigator.state_dict(), imported.report
    for n in range(2):
        theirs = state[f"encoder.layer.{n + 2}.attention.self.query.weight"]
        for part in ("cross", "attention"):
            assert torch.equal(ours[f"backbone.cross_layers.{n}.{part}.query.weight"], theirs)
        outer = state[f"encoder.layer.{n + 2}.output.dense.bias"]
        assert torch.equal(ours[f"backbone.cross_layers.{n}.feed_forward.outer.bias"], outer)
    assert torch.equal(ours["backbone.layers.2.attention.key.bias"], state["encoder.layer.2.attention.self.key.bias"])
    assert report.config.layers == 3
    assert set(report.loaded) == set(state)


def test_layers_that_nobody_takes_are_named(samples: Any, tmp_path: Path) -> None:
    source = saved(samples.bert(layers=4), tmp_path)
    report = inspect_weights(source, ImportOptions(layers=2))
    assert {name.split(".")[2] for name in report.unused} == {"2", "3"}
    for wish in (ImportOptions(layers=5), ImportOptions(backbone="two-stream", cross_layers=5)):
        with pytest.raises(UsageError, match="is more than the 4 that"):
            inspect_weights(source, wish)


def test_a_bert_without_pooler_gets_a_new_one(samples: Any, tmp_path: Path) -> None:
    state = {name: tensor for name, tensor in samples.bert("bert.").items() if "pooler" not in name}
    report = inspect_weights(saved(state, tmp_path))
    assert {"backbone.pooler.dense.weight", "backbone.pooler.dense.bias"} <= set(report.new)


def test_config_and_vocabulary_come_along(bert_folder: Path, tmp_path: Path) -> None:
    report = import_weights(bert_folder, tmp_path / "out", TWO)
    assert report.config.heads == 2
    assert not [note for note in report.notes if "heads" in note]
    navigator = Navigator.from_pretrained(tmp_path / "out")
    assert navigator.tokenizer is not None
    assert navigator.tokenizer.encode("Word3 word24 strange").ids == [2, 8, 29, 1, 3]


def test_a_cased_vocabulary_stays_cased(bert_folder: Path) -> None:
    (bert_folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    tokenizer = load_weights(bert_folder).navigator.tokenizer
    assert tokenizer is not None
    assert tokenizer.encode("Word3 word3").ids == [2, 1, 8, 3]


def test_a_tokenizer_file_serves_too(bert_folder: Path, tmp_path: Path) -> None:
    tokenizer = load_weights(bert_folder).navigator.tokenizer
    assert tokenizer is not None
    tokenizer.enable_padding(length=50)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(bert_folder / "tokenizer.json"))
    (bert_folder / "vocab.txt").unlink()
    found = load_weights(bert_folder).navigator.tokenizer
    assert found is not None
    assert found.encode("word0 word1 word2 word3").ids == [2, 5, 6, 7, 8, 3]


def test_minilm_gives_its_own_hidden_states(minilm: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    navigator = load_weights(minilm, ImportOptions(feature_width=8)).navigator
    assert navigator.tokenizer is not None
    texts = ["Walk past the sofa and stop at the door.", "Go upstairs.", "Turn left, then wait by the blue chair."]
    navigator.tokenizer.enable_padding()
    encoded = navigator.tokenizer.encode_batch(texts)
    tokens = torch.tensor([item.ids for item in encoded])
    mask = torch.tensor([item.attention_mask for item in encoded])
    model = transformers.BertModel.from_pretrained(minilm).eval()
    with torch.no_grad():
        expected = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        instruction = navigator.backbone.encode(tokens, mask.bool())
    found = torch.cat((instruction.state[:, None], instruction.language.features), dim=1)
    assert (found - expected)[mask.bool()].abs().max() < 1e-5
    assert tokens[1, 0] == 101
    assert navigator.config.hidden_dropout == 0.1


def test_minilm_across(minilm: Path) -> None:
    navigator = load_weights(minilm, ImportOptions(backbone="two-stream", feature_width=8)).navigator
    assert (navigator.config.layers, navigator.config.cross_layers, navigator.config.heads) == (6, 3, 12)
    layers, cross = navigator.backbone.layers, navigator.backbone.cross_layers
    for n in range(3):
        for name, tensor in layers[3 + n].attention.state_dict().items():
            assert torch.equal(cross[n].cross.state_dict()[name], tensor)
            assert torch.equal(cross[n].attention.state_dict()[name], tensor)
        for name, tensor in layers[3 + n].feed_forward.state_dict().items():
            assert torch.equal(cross[n].feed_forward.state_dict()[name], tensor)


WRONG = {
    "vocab_size": (31, "vocab_size: says 31, but the weights have 30"),
    "num_hidden_layers": (4, "num_hidden_layers: says 4, but the weights have 3"),
    "hidden_act": ("relu", "hidden_act: is relu"),
}


@pytest.mark.parametrize("setting", WRONG)
def test_a_config_that_contradicts_the_weights(bert_folder: Path, setting: str) -> None:
    value, expected = WRONG[setting]
    path = bert_folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {setting: value}))
    with pytest.raises(DataError, match=expected) as caught:
        inspect_weights(bert_folder)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("rows", [29, 158])
def test_a_vocabulary_of_another_size(bert_folder: Path, samples: Any, rows: int) -> None:
    state = samples.bert("bert.") | {"bert.embeddings.word_embeddings.weight": samples.matrix(rows, 16)}
    torch.save(state, bert_folder / "pytorch_model.bin")
    (bert_folder / "config.json").unlink()
    with pytest.raises(DataError, match=f"has 30 word pieces, but the weights have embeddings for {rows}"):
        inspect_weights(bert_folder)
