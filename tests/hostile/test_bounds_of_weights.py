"""Checkpoints and configurations that ask for more than they hold are refused before torch gives it."""

import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.limits import refusal
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.weights.importing import inspect_weights, load_weights
from vlnbert.weights.reading import read_checkpoint

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of torch's older format
SIZE = 1_100_000_000  # bytes
TINY = NavigatorConfig(
    hidden=8, heads=2, inner=8, layers=1, vocabulary=20, positions=8, feature_width=4, angle_width=4, critic_width=4
)


def zipped(path: Path, pickled: bytes, compression: int = zipfile.ZIP_STORED, storage: bytes = b"\0" * 64) -> Path:
    """A checkpoint in today's format, of a pickle of one's own."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("agent/data.pkl", pickled)
        archive.writestr("agent/version", "3\n")
        archive.writestr("agent/data/0", storage)
    return path


def old(path: Path, pickled: bytes) -> Path:
    """The same in the older format."""
    info = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = [pickle.dumps(one, 2) for one in (MAGIC, PROTOCOL, info)]
    path.write_bytes(b"".join(head) + pickled + pickle.dumps([], 2))
    return path


@pytest.mark.parametrize("write", [zipped, old])
def test_pickles_are_of_a_size(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "a.pt", b"\x80\x02" + b"]" * (10 << 20) + b".")
    assert "describes its tensors in more than 1 MB" in refusal(read_checkpoint, path)


def test_archives_are_not_compressed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.pt", b"\x80\x02" + b"]" * (200 << 20) + b".", zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    assert "is not a whole torch checkpoint (a part is compressed)" in refusal(read_checkpoint, path)


def test_archives_declare_no_more_than_they_hold(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.pt", pickle.dumps({}, 2), storage=b"\0" * (1 << 20))
    with zipfile.ZipFile(path) as archive:
        first = archive.getinfo("agent/data/0")
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    entry = content.rindex(b"PK\x01\x02")  # of the storage, whose entry is put in again and again
    end = content.rindex(b"PK\x05\x06")
    again = bytes(content[entry:end]) * 50
    count = 3 + 50
    tail = bytearray(content[end:])
    tail[8:12] = count.to_bytes(2, "little") * 2
    tail[12:16] = (end - directory + len(again)).to_bytes(4, "little")
    path.write_bytes(content[:end] + again + tail)
    assert first.file_size == 1 << 20
    assert "is not a whole torch checkpoint (it declares more than it holds)" in refusal(read_checkpoint, path)


@pytest.mark.parametrize("write", [zipped, old])
@pytest.mark.parametrize("maker", [b"cbuiltins\nbytearray\n", b"c__builtin__\nbytearray\n", b"ctorch\nFloatTensor\n"])
def test_nothing_of_any_size_is_made(tmp_path: Path, write: Any, maker: bytes) -> None:
    made = b"\x80\x02" + maker + b"\x8a\x05" + (1 << 33).to_bytes(5, "little") + b"\x85R."
    assert "makes objects of any size" in refusal(read_checkpoint, write(tmp_path / "a.pt", made))


@pytest.mark.parametrize("name", ["agent/DATA.PKL", "Agent/data.Pkl"])
def test_the_pickle_of_an_archive_is_found_as_torch_finds_it(tmp_path: Path, name: str) -> None:
    made = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + (1 << 33).to_bytes(5, "little") + b"\x85R."
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr(name, made)
        archive.writestr(f"{name[:5]}/version", "3\n")
    assert "makes objects of any size" in refusal(read_checkpoint, tmp_path / "a.pt")


def saved(path: Path, tensors: dict[str, Any]) -> Path:
    torch.save(OrderedDict(tensors), path)
    return path


@pytest.mark.parametrize("zip_format", [True, False], ids=["zip", "old format"])
def test_tensors_have_no_more_numbers_than_are_stored(tmp_path: Path, zip_format: bool) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.zeros(1).expand(1 << 20, 1 << 16)}, path, _use_new_zipfile_serialization=zip_format)
    assert "a: declares 68,719,476,736 numbers, of which the file holds fewer" in refusal(inspect_weights, path)
    one = torch.zeros(1 << 20)
    torch.save({f"a{n}": one.view(-1) for n in range(1000)}, path, _use_new_zipfile_serialization=zip_format)
    assert "declares tensors of 4,000 MB, more than 2 times its size" in refusal(inspect_weights, path)
    torch.save({"a": torch.empty(1 << 16, 1 << 16, device="meta")}, path, _use_new_zipfile_serialization=zip_format)
    assert "a: has no numbers in the file" in refusal(inspect_weights, path)


def test_deep_pickles_end_in_a_line(tmp_path: Path) -> None:
    for write in (zipped, old):
        path = write(tmp_path / "a.pt", b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
        assert "not the weights of a model" in refusal(load_weights, path)


def test_layers_of_any_number_are_looked_for_only_once(tmp_path: Path, samples: Any) -> None:
    agent = samples.agent("one-stream")
    state = agent["vln_bert"]["state_dict"]
    name = next(name for name in state if ".layer.0." in name)
    state[name.replace(".layer.0.", ".layer.9999.")] = state[name]
    torch.save(agent, tmp_path / "agent.pt")
    assert "and the rest of its layer" in refusal(load_weights, tmp_path / "agent.pt")


@pytest.mark.parametrize("name", ["agent.pt", "model.safetensors"])
def test_pipes_are_no_checkpoints(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert "is a pipe, where a" in refusal(inspect_weights, tmp_path / name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Navigator(TINY).save_pretrained(tmp_path / "navigator")
    return tmp_path / "navigator"


def change(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    (folder / "digests.json").unlink()  # whoever makes such a folder can make its digests too
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"layers": 2**20}, "choose a whole number from 1 to 1,000"),
        ({"layers": 1000}, "config.json: describes 1,000 layers, but model.safetensors holds"),
        ({"backbone": "two-stream", "cross_layers": 900}, "config.json: describes 901 layers"),
        ({"layers": 60}, "does not fit its config.json: lacks backbone.layers.1."),
        ({"hidden": 2**20, "inner": 2**20}, "does not fit its config.json"),
        ({"vocabulary": 2**20, "positions": 2**20}, "does not fit its config.json"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_configuration_is_held_against_the_weights_before_anything_is_built(
    folder: Path, values: dict[str, Any], words: str
) -> None:
    change(folder, **values)
    assert words in refusal(Navigator.from_pretrained, folder)


def test_weights_that_do_not_fit_are_not_read(folder: Path) -> None:
    save_file({"a": torch.zeros(1)}, folder / "model.safetensors")
    with (folder / "model.safetensors").open("r+b") as file:  # declares 1.2 GB, of which the disk holds nothing
        header = json.dumps({"a": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}})
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + SIZE)
    assert "adds a" in refusal(Navigator.from_pretrained, folder)


def test_honest_neighbours_of_all_these_are_read(tmp_path: Path) -> None:
    tied = torch.randn(64, 64)
    for zip_format in (True, False):
        torch.save({"a": tied, "b": tied}, tmp_path / "a.pt", _use_new_zipfile_serialization=zip_format)
        assert torch.equal(read_checkpoint(tmp_path / "a.pt").tensors["b"], tied)
    buffer = io.BytesIO()
    torch.save({"a": tied}, buffer)
    assert b"bytearray" not in buffer.getvalue()
