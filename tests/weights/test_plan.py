"""Weights, options, vocabularies and configs that do not fit together end in a line for each, and leave nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.weights.conftest import MODEL, fails, one_line
from vlnbert.errors import DataError, UsageError
from vlnbert.weights.importing import inspect_weights, load_weights
from vlnbert.weights.options import ImportOptions


def test_every_unknown_key_is_named(agent: dict[str, Any], path: Path, tmp_path: Path) -> None:
    state = agent[MODEL]["state_dict"]
    state["vln_bert.extra.weight"] = state["vln_bert.embeddings.word_embeddings.bias"] = torch.zeros(3)
    torch.save(agent, path)
    lines = fails(path, tmp_path)
    assert [line.split(": ")[1] for line in lines] == [
        "vln_bert.extra.weight",
        "vln_bert.embeddings.word_embeddings.bias",
    ]
    assert all("no table knows" in line for line in lines)


def test_every_shape_that_does_not_fit_is_named(agent: dict[str, Any], path: Path, tmp_path: Path) -> None:
    state = agent[MODEL]["state_dict"]
    state["vln_bert.addlayer.1.lang_inter.dense.bias"] = torch.zeros(23)
    state["vln_bert.lalayer.0.attention.self.query.weight"] = torch.zeros(16, 15)
    torch.save(agent, path)
    lines = fails(path, tmp_path)
    assert len(lines) == 2
    assert "vln_bert.lalayer.0.attention.self.query.weight: has shape 16 x 15 where 16 x 16 is expected" in lines[0]
    assert "vln_bert.addlayer.1.lang_inter.dense.bias: has shape 23 where 24 is expected" in lines[1]


@pytest.mark.parametrize("backbone", ["one-stream", "two-stream"])
def test_widths_that_the_weights_do_not_have(samples: Any, path: Path, tmp_path: Path, backbone: str) -> None:
    torch.save(samples.agent(backbone), path)
    line = one_line(path, tmp_path, ImportOptions(feature_width=7))
    assert line == f"feature_width=7, but the weights in {path} are made for 6; say 6 or leave it out"
    assert "angle_width=4, but the weights" in one_line(path, tmp_path, ImportOptions(angle_width=4))
    assert "critic_width=4, but the weights" in one_line(path, tmp_path, ImportOptions(critic_width=4))
    assert inspect_weights(path, ImportOptions(feature_width=6, angle_width=8)).config.feature_width == 6


NARROW = {
    "words": (["embeddings.word_embeddings.weight"], ["has shape 30 x 7 where 30 x 16 is expected"]),
    "places": (["embeddings.position_embeddings.weight"], ["has shape 20 x 7 where 20 x 16 is expected"]),
    "both": (
        ["embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"],
        ["has shape 30 x 7 where 30 x 16 is expected", "has shape 20 x 7 where 20 x 16 is expected"],
    ),
}


@pytest.mark.parametrize("narrow", NARROW)
def test_shapes_that_contradict_each_other(samples: Any, path: Path, tmp_path: Path, narrow: str) -> None:
    names, expected = NARROW[narrow]
    state = samples.bert()
    torch.save(state | {name: state[name][:, :7].clone() for name in names}, path)
    lines = fails(path, tmp_path)
    assert len(lines) == len(names)
    for line, name, problem in zip(lines, names, expected, strict=True):
        assert line.startswith(f"{path}: {name}: {problem}")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_that_are_no_numbers(
    samples: Any, path: Path, tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    state = {name: tensor.to(dtype) for name, tensor in samples.bert().items()}
    torch.save(state, path)
    assert inspect_weights(path).loaded
    state["embeddings.word_embeddings.weight"][-1, -1] = value
    torch.save(state, path)
    assert "embeddings.word_embeddings.weight: holds NaN or infinity; give other weights" in one_line(path, tmp_path)
    with pytest.raises(DataError, match="holds NaN or infinity"):
        inspect_weights(path)


def remove(condition: Callable[[str], bool]) -> Callable[[dict[str, Any]], None]:
    def change(agent: dict[str, Any]) -> None:
        for part in agent.values():
            part["state_dict"] = {name: tensor for name, tensor in part["state_dict"].items() if not condition(name)}

    return change


HALVES = {
    "one key": (remove(lambda name: name == "state_proj.bias"), "lacks state_proj.bias; half a checkpoint"),
    "one kept key": (remove(lambda name: name == "cand_LayerNorm.bias"), "lacks cand_LayerNorm.bias"),
    "many keys": (remove(lambda name: ".visn_self" in name), "addlayer.0.visn_self_att.self.query.weight, "),
    "a layer between": (remove(lambda name: ".lalayer.1." in name), "vln_bert.lalayer.1.attention.self.query.weight"),
    "the last layer": (remove(lambda name: ".lalayer.2." in name), "has 145 tensors where its optimiser knew 161"),
    "all cross layers": (remove(lambda name: ".addlayer." in name), "addlayer.0.visn_self_att.self.query.weight"),
    "no embeddings": (remove(lambda name: "embeddings" in name), "vln_bert.embeddings.word_embeddings.weight"),
    "no critic": (lambda agent: agent.pop("critic"), "part 'critic': has no state_dict; half a checkpoint"),
    "an empty critic": (lambda agent: agent["critic"].update(state_dict={}), "holds nothing"),
}


@pytest.mark.parametrize("half", HALVES)
def test_half_a_checkpoint(agent: dict[str, Any], path: Path, tmp_path: Path, half: str) -> None:
    change, expected = HALVES[half]
    change(agent)
    torch.save(agent, path)
    lines = fails(path, tmp_path)
    assert expected in lines[0]
    assert len(lines) == 1


def test_the_first_half_of_the_keys(agent: dict[str, Any], path: Path, tmp_path: Path) -> None:
    state = agent[MODEL]["state_dict"]
    for keep in (slice(None, len(state) // 2), slice(len(state) // 2, None)):
        changed = {**agent, MODEL: {"state_dict": dict(list(state.items())[keep])}}
        torch.save(changed, path)
        assert "lacks " in one_line(path, tmp_path)


WEIRD = {
    "single bytes": (lambda t: t.to(torch.float8_e5m2), "holds float8_e5m2, not weights"),
    "whole numbers": (lambda t: t.int(), "holds int32, not weights"),
    "scattered": (lambda t: t.to_sparse(), "state_proj.weight: is sparse; save it dense"),
}


@pytest.mark.parametrize("kind", WEIRD)
def test_tensors_that_are_no_weights(agent: dict[str, Any], path: Path, tmp_path: Path, kind: str) -> None:
    change, expected = WEIRD[kind]
    agent[MODEL]["state_dict"]["state_proj.weight"] = change(agent[MODEL]["state_dict"]["state_proj.weight"])
    torch.save(agent, path)
    assert expected in one_line(path, tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("vln_bert.embeddings.word_embeddings.weight", torch.zeros(3), "has shape 3 where a matrix is expected"),
        ("vln_bert.embeddings.position_embeddings.weight", torch.tensor(1.0), "of a single number"),
        ("action_state_project.0.weight", torch.zeros(16, 18), "leaves 2 columns for a direction"),
        ("vln_bert.vision_encoder.visn_fc.weight", torch.zeros(16, 8), "leaves no column for a feature"),
    ],
)
def test_shapes_from_which_nothing_can_be_read(
    agent: dict[str, Any], path: Path, tmp_path: Path, name: str, tensor: Tensor, expected: str
) -> None:
    agent[MODEL]["state_dict"][name] = tensor
    torch.save(agent, path)
    line = one_line(path, tmp_path)
    assert name in line
    assert expected in line


def test_heads_that_cannot_be_guessed(samples: Any, path: Path, tmp_path: Path) -> None:
    state = {name: tensor[:15] for name, tensor in samples.bert().items()}
    state = {
        name: tensor[:, :15] if tensor.dim() == 2 and tensor.shape[1] == 16 else tensor
        for name, tensor in state.items()
    }
    torch.save(state, path)
    assert "say so with heads=N" in one_line(path, tmp_path)
    with pytest.raises(UsageError, match="2 heads cannot share a width of 15"):
        inspect_weights(path, ImportOptions(heads=2))


@pytest.mark.parametrize("option", ["heads", "layers", "cross_layers", "feature_width", "angle_width"])
def test_options_below_one(bert_folder: Path, tmp_path: Path, option: str) -> None:
    line = one_line(bert_folder, tmp_path, ImportOptions(backbone="two-stream", **{option: 0}))
    assert line.startswith(f"{option}=0 is too few")


@pytest.mark.parametrize("option", ["heads", "feature_width", "angle_width", "object_width"])
def test_options_beyond_all_measure(bert_folder: Path, tmp_path: Path, option: str) -> None:
    line = one_line(bert_folder, tmp_path, ImportOptions(**{option: 10**13}))
    assert line.startswith(f"{option} is 10000000000000; choose a whole number from ")


def test_a_seed_of_any_size(bert_folder: Path) -> None:
    first, second = (
        load_weights(bert_folder, ImportOptions(seed=seed)).navigator.critic for seed in (10**30, 10**30 + 1)
    )
    assert not torch.equal(first[0].weight, second[0].weight)


def test_cross_layers_need_the_two_stream_backbone(bert_folder: Path, tmp_path: Path) -> None:
    assert "only two-stream has some" in one_line(bert_folder, tmp_path, ImportOptions(cross_layers=2))


def test_a_damaged_vocabulary(bert_folder: Path, tmp_path: Path) -> None:
    (bert_folder / "vocab.txt").unlink()
    (bert_folder / "tokenizer.json").write_text("{")
    assert "tokenizer.json: line 1 column 2: is not whole JSON" in one_line(bert_folder, tmp_path)
    (bert_folder / "vocab.txt").write_text("the\nof\n")
    assert all("vocab.txt: lacks the token" in line or "[PAD]" in line for line in fails(bert_folder, tmp_path))


@pytest.mark.parametrize("name", ["no.txt", "no.json", ""])
def test_a_vocabulary_that_is_not_there(bert_folder: Path, tmp_path: Path, name: str) -> None:
    asked = tmp_path / name
    problem = "no such vocabulary" if name else "is a folder"
    line = one_line(bert_folder, tmp_path, ImportOptions(vocabulary=asked))
    assert line == f"{asked}: {problem}; give a vocab.txt or a tokenizer.json"


@pytest.mark.parametrize("text", ["[1]", "{", '{"hidden_size": "a lot", "num_attention_heads": "x"}'])
def test_a_damaged_config(bert_folder: Path, text: str) -> None:
    (bert_folder / "config.json").write_text(text)
    if text.endswith("}"):
        assert inspect_weights(bert_folder).config.heads == 4
        return
    with pytest.raises(DataError, match=r"config\.json"):
        inspect_weights(bert_folder)
