"""Files that hold no weights, or not whole, and places that cannot be read or written end in a line that says so."""

import builtins
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from tests.weights.conftest import MODEL, one_line
from vlnbert.errors import DataError, VlnbertError
from vlnbert.navigator import Navigator
from vlnbert.weights.importing import import_weights, inspect_weights


class Trap:
    """Unpickles by creating a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return builtins.open, (str(self.path), "w")


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

    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", refuse)
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

    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", give)
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
