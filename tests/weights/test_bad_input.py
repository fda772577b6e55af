"""Everything that can be wrong with somebody's weights ends in a line that says so, and leaves nothing behind."""

import builtins
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from vlnbert.errors import DataError, UsageError, VlnbertError
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage import hub
from vlnbert.weights.importing import import_weights, inspect_weights, load_weights
from vlnbert.weights.options import ImportOptions

MODEL = "vln_bert"


class Trap:
    """Unpickles by creating a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return builtins.open, (str(self.path), "w")


def fails(source: object, tmp_path: Path, options: ImportOptions | None = None) -> list[str]:
    """The lines of the error, once it is known that nothing was written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(VlnbertError) as caught:
        import_weights(str(source), tmp_path / "dest", options or ImportOptions())
    assert sorted(tmp_path.rglob("*")) == before
    return str(caught.value).splitlines()


def one_line(source: object, tmp_path: Path, options: ImportOptions | None = None) -> str:
    (line,) = fails(source, tmp_path, options)
    return line


@pytest.fixture
def agent(samples: Any) -> dict[str, Any]:
    return samples.agent("two-stream")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.pt"


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "old format"])
@pytest.mark.parametrize("where", ["state", "beside", "whole"])
def test_code_in_a_checkpoint_does_not_run(
    agent: dict[str, Any], path: Path, tmp_path: Path, where: str, zipped: bool
) -> None:
    trap = Trap(tmp_path / "ran")
    agent[MODEL]["state_dict" if where == "state" else "args"] = trap
    torch.save(trap if where == "whole" else agent, path, _use_new_zipfile_serialization=zipped)
    line = one_line(path, tmp_path)
    assert "holds code or objects (io.open)" in line
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_plain_pickle_does_not_run(path: Path, tmp_path: Path, protocol: int) -> None:
    path.write_bytes(pickle.dumps(Trap(tmp_path / "ran"), protocol))
    line = one_line(path, tmp_path)
    assert "nothing in it was run" in line if protocol < 4 else "may hold code; it was not opened" in line
    assert "weights_only" not in line
    assert not (tmp_path / "ran").exists()
    pickle.loads(path.read_bytes()).close()  # noqa: S301  # the trap is a real one
    assert (tmp_path / "ran").exists()


NOT_WEIGHTS = {
    "a list": ([torch.zeros(2)], "holds a list, not the weights of a model"),
    "a number": (3, "holds a int, not the weights of a model"),
    "nothing": ({}, "holds nothing"),
    "a tensor": (torch.zeros(3), "holds a Tensor"),
    "numbered": ({0: torch.zeros(2)}, "holds a dict"),
    "words": ({"encoder.layer.0.x": "y"}, "encoder.layer.0.x: is a str, not a tensor"),
    "no state dict": ({"vln_bert": 5, "critic": {}}, "part 'vln_bert': has no state_dict"),
    "other keys": ({"conv1.weight": torch.zeros(2)}, "is of no known kind: looked for keys vln_bert.bert.*"),
}


@pytest.mark.parametrize("kind", NOT_WEIGHTS)
def test_a_pickle_that_is_not_a_state_dict(path: Path, tmp_path: Path, kind: str) -> None:
    document, expected = NOT_WEIGHTS[kind]
    torch.save(document, path)
    line = one_line(path, tmp_path)
    assert line.startswith(f"{path}: ")
    assert expected in line


@pytest.mark.parametrize("protocol", range(1, 6))
def test_a_plain_pickle(path: Path, tmp_path: Path, protocol: int) -> None:
    path.write_bytes(pickle.dumps({"a": 1}, protocol))
    kind = "is a plain pickle, which may hold code; it was not opened" if protocol > 1 else "is no torch checkpoint"
    assert f"{path}: {kind}; " in one_line(path, tmp_path)


@pytest.mark.parametrize("content", [b"hello, world\n", b"\x89PNG\r\n", b"{}", b"\x80"])
def test_a_file_of_another_kind(path: Path, tmp_path: Path, content: bytes) -> None:
    path.write_bytes(content)
    whole = "is not a whole torch checkpoint (" if content == b"\x80" else "is no torch checkpoint; give"
    assert f"{path}: {whole}" in one_line(path, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_truncated_files(agent: dict[str, Any], samples: Any, tmp_path: Path, share: float) -> None:
    torch.save(agent, tmp_path / "a.pt")
    torch.save(agent, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    save_file(samples.bert(), tmp_path / "c.safetensors")
    for file in list(tmp_path.iterdir()):
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
        kind = "safetensors file" if file.suffix == ".safetensors" else "torch checkpoint"
        assert f"{file}: is not a whole {kind}" in one_line(file, tmp_path)


@settings(max_examples=80)
@given(data=st.data())
def test_damaged_bytes_never_end_in_a_traceback(
    samples: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("damaged") / data.draw(st.sampled_from(["a.pt", "a.bin", "a.safetensors"]))
    state = {"encoder.layer.0.x.weight": torch.zeros(3), "embeddings.word_embeddings.weight": torch.ones(4, 4)}
    if file.suffix == ".safetensors":
        save_file(state, file)
    else:
        torch.save(state, file, _use_new_zipfile_serialization=file.suffix == ".pt")
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, min(len(content), 600) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    with pytest.raises(VlnbertError):
        inspect_weights(file)


@settings(max_examples=60)
@given(content=st.binary(max_size=200), ending=st.sampled_from(["pt", "safetensors"]))
def test_arbitrary_bytes_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    file = tmp_path_factory.mktemp("bytes") / f"a.{ending}"
    file.write_bytes(content)
    with pytest.raises(DataError):
        inspect_weights(file)


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


@pytest.mark.parametrize("part", ["weights", "pickle", "sum"])
def test_a_flipped_bit_in_an_archive(agent: dict[str, Any], path: Path, tmp_path: Path, part: str) -> None:
    """torch looks at no checksum."""
    torch.save(agent, path)
    content = bytearray(path.read_bytes())
    weights = agent[MODEL]["state_dict"]["state_proj.weight"].numpy().tobytes()
    with zipfile.ZipFile(path) as archive:
        pickled = archive.getinfo("agent/data.pkl")
    at = {
        "weights": content.index(weights) + 1,
        "pickle": content.index(b"state_proj.weight") + 3,
        "sum": content.rindex(pickled.CRC.to_bytes(4, "little")),  # in the archive's directory
    }
    content[at[part]] ^= 4
    path.write_bytes(content)
    assert torch.load(path, weights_only=True).keys() == agent.keys()
    assert "is not a whole torch checkpoint (the checksum of agent/data" in one_line(path, tmp_path)


def test_a_compressed_archive(agent: dict[str, Any], path: Path, tmp_path: Path) -> None:
    torch.save(agent, path)
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    assert "is not a whole torch checkpoint (a part is compressed)" in one_line(tmp_path / "small.pt", tmp_path)


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


def test_places_without_weights(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds neither model.safetensors nor pytorch_model.bin" in one_line(tmp_path / "empty", tmp_path)
    for name in ("no.pt", "a/b/c", "/no/such/place"):
        assert f"{name}: no such file or folder; give" in one_line(name, tmp_path)


@pytest.mark.parametrize(
    "error", [ConnectionError("[Errno -2] unknown"), ValueError("bad name"), RuntimeError(), OSError(5, "x")]
)
def test_a_hub_name_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    for name in ("bert-base-uncased", "owner/model_1.5"):
        line = one_line(name, tmp_path)
        assert line.startswith(
            f"{name}: no such file or folder, and the hub gave no model of that name ({type(error).__name__}"
        )


def test_a_hub_name_in_offline_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert "the hub gave no model of that name" in one_line("owner/no-such-model", tmp_path)


def test_a_hub_name_is_fetched(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def give(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns[-1]))
        return str(bert_folder)

    monkeypatch.setattr(hub, "snapshot_download", give)
    assert inspect_weights("owner/small-bert").family == "bert"
    assert asked == [("owner/small-bert", "model.safetensors"), ("owner/small-bert", "pytorch_model.bin")]


def test_a_destination_in_use_is_left_alone(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dest").mkdir()
    (tmp_path / "dest" / "mine.txt").write_text("keep")
    for source in (bert_folder, "not/looked/at"):
        assert "the folder is not empty" in one_line(source, tmp_path)
    shutil.rmtree(tmp_path / "dest")
    (tmp_path / "dest").write_text("keep")
    assert "is not a folder" in one_line(bert_folder, tmp_path)
    (tmp_path / "dest").unlink()
    (tmp_path / "dest").mkdir()
    import_weights(bert_folder, tmp_path / "dest")
    assert (tmp_path / "dest" / "model.safetensors").exists()


def test_a_full_disk_leaves_nothing(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Navigator, folder: Path, **_: object) -> None:
        (folder / "model.safetensors").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Navigator, "save_pretrained", full)
    assert "cannot be written (No space left on device)" in one_line(bert_folder, tmp_path)


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
