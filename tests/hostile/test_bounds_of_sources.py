"""What a file asks for is known before it is given: sizes, lengths, links, pipes and devices."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.conftest import TinyData
from tests.limits import refusal
from vlnbert.errors import DataError, Faults, VlnbertError
from vlnbert.evaluation.results import read_results
from vlnbert.learning.run_folder import read_log
from vlnbert.sources.annotations import read_boxes, read_captions, read_observations
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.features import LARGEST_DATASET, UNPACKED_ROOM, read_features, read_object_features
from vlnbert.sources.files import LARGEST_JSON, read_json, stream_json_list
from vlnbert.sources.instructions import read_augmented, read_r2r, read_reverie
from vlnbert.tasks.batches import load_tokenizer
from vlnbert.world.cache import content_digest

READERS: dict[str, Callable[[Path], Any]] = {
    "connectivity": read_connectivity,
    "boxes": read_boxes,
    "captions": read_captions,
    "observations": read_observations,
    "r2r": lambda path: list(read_r2r(path)),
    "reverie": lambda path: list(read_reverie(path)),
    "augmented": lambda path: list(read_augmented(path)),
    "tsv": lambda path: list(read_features(path)),
    "hdf5": lambda path: list(read_features(path)),
    "objects": lambda path: list(read_object_features(path)),
    "vocabulary": load_tokenizer,
    "json": lambda path: read_json(path, "document"),
    "log": read_log,
}


def read(name: str, path: Path) -> None:
    READERS[name](path)


def results(path: Path) -> None:
    faults = Faults(path)
    read_results(path, faults)
    faults.raise_if_any()


def read_specials(folder: Path) -> None:
    said = []
    for name in READERS:
        pipe, device = folder / f"pipe_of.{name}", folder / f"device_of.{name}"
        os.mkfifo(pipe)
        device.symlink_to("/dev/zero")
        for path in (pipe, device):
            try:
                read(name, path)
            except DataError as error:
                said.append(f"{path.name} {error.problem}")
    raise VlnbertError("\n".join(said))


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    said = refusal(read_specials, tmp_path).splitlines()
    assert len(said) == 2 * len(READERS)
    for line in said:
        assert f"is a {line.partition('_')[0]}, where a" in line


def test_a_cache_knows_no_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert content_digest(tmp_path / "pipe") == content_digest(Path("/dev/zero")) == ""


def test_results_may_come_through_a_pipe(tmp_path: Path) -> None:
    path, text = tmp_path / "pipe", json.dumps([{"instr_id": "1_0", "trajectory": ["a"]}])
    os.mkfifo(path)
    assert "expecting [ or {" in refusal(results, path)  # nobody writes, so it is at its end
    keep = os.open(path, os.O_RDWR)  # or else who writes would wait for who reads
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    writer.join()
    reader = threading.Timer(0.2, os.close, (keep,))
    reader.start()
    assert [result.id for result in read_results(path, Faults(path)).results] == ["1_0"]
    reader.join()
    assert "is a device" in refusal(results, Path("/dev/zero"))


def big(path: Path, start: bytes, unit: bytes, size: int, end: bytes = b"") -> Path:
    """A file that repeats itself."""
    with path.open("wb") as file:
        file.write(start + unit * (size // len(unit)) + end)
    return path


def test_large_documents_are_told_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "scan_view.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_JSON + 1)
    for name in ("connectivity", "boxes", "captions", "observations", "json"):
        assert "has 64 MB, where a" in refusal(read, name, path)


@pytest.mark.parametrize(
    "unit",
    [b"[],", b'{"":0},', b'{"":', '"Ā",'.encode(), b'{"a":1},"b","c","d","e",'],
    ids=["lists", "objects", "nested", "texts", "both"],
)
def test_what_a_document_becomes_is_told_from_its_text(tmp_path: Path, unit: bytes) -> None:
    path = big(tmp_path / "a.json", b"[", unit, 63 << 20, b"0]")
    assert "would take 900 MB of memory or more, as no document does" in refusal(read, "json", path)


def test_large_documents_of_few_parts_are_read(tmp_path: Path) -> None:
    """Numbers, and texts of some length: neither becomes many times larger."""
    for unit in (b"[0.123456, 0.123456, 0.123456], ", b'{"text": "' + b"walk past the stairs, " * 4 + b'"}, '):
        path = big(tmp_path / "a.json", b"[", unit, 10 << 20, b"0]")
        assert refusal(read, "json", path) == "nothing was refused"


def test_one_long_string_is_read_in_linear_time_and_refused(tmp_path: Path) -> None:
    path = big(tmp_path / "a.json", b'[{"text": "', b"x" * 1024, 200 << 20, b'"}]')
    assert "has an item longer than 8 MB" in refusal(read, "r2r", path)
    assert "has an item longer than 8 MB" in refusal(results, path)


def test_a_long_string_is_read_a_few_times_and_not_once_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlnbert.sources.files.CHUNK", 1 << 10)
    text = "x" * (4 << 20)
    path = tmp_path / "a.json"
    path.write_text(json.dumps([text, 1]))
    reads = []
    decoder = json.JSONDecoder()

    class Counting:
        def raw_decode(self, held: str, at: int) -> tuple[Any, int]:
            reads.append(len(held) - at)
            return decoder.raw_decode(held, at)

    monkeypatch.setattr("vlnbert.sources.files.DECODER", Counting())
    assert list(stream_json_list(path, "list")) == [text, 1]
    assert sum(reads) < 4 * len(text)


def test_a_tsv_line_ends_somewhere(tmp_path: Path) -> None:
    path = big(tmp_path / "a.tsv", b"scan\tview\t", b"A" * 1024, 100 << 20)
    assert "line 1: is longer than 16 MB" in refusal(read, "tsv", path)


def test_a_log_line_that_does_not_end_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"iteration": 1, "total": 2}\n' + "[" * 3_000_000 + '\n{"iteration": 2, "total": 2}\n')
    assert [line["iteration"] for line in read_log(path)] == [1, 2]


def test_an_instruction_file_does_not_multiply(tmp_path: Path) -> None:
    item = {"scan": "s", "path": ["a"], "heading": 0, "path_id": 1, "instructions": ["walk"]}
    for change, words in [
        ({"path": ["a"] * 200_000, "instructions": ["x"] * 200_000}, "'path' has 200,000 viewpoints"),
        ({"instructions": ["x"] * 200_000}, "has 200,000 instructions"),
        ({"instructions": ["x" * 100_000]}, "of up to 100,000 characters"),
        ({"path_id": "x" * 1_000_000, "instructions": ["x"] * 1000}, "'path_id' is missing or not a name"),
    ]:
        path = tmp_path / "R2R_train.json"
        path.write_text(json.dumps([{**item, **change}]))
        assert words in refusal(read, "r2r", path)


def test_a_file_that_is_wrong_everywhere_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = big(tmp_path / "a.json", b"[1", b",1", 60 << 20, b"]")
    for words in (refusal(read, "r2r", path), refusal(results, path)):
        assert words.endswith("and 9,980 more faults of 10,000; the rest was not looked at")


def test_a_viewpoint_leads_to_so_many_others(tmp_path: Path, tiny: TinyData) -> None:
    count = 130
    names = [{"image_id": str(n), "pose": [0.0] * 16, "included": True} for n in range(count)]
    flags = [True] * count
    path = tmp_path / "full_connectivity.json"
    path.write_text(json.dumps([{**entry, "visible": flags, "unobstructed": flags} for entry in names]))
    assert "viewpoint 0: leads to 129 others; keep at most 128" in refusal(read, "connectivity", path)


def test_a_viewpoint_shows_so_many_objects(tmp_path: Path) -> None:
    path = tmp_path / "scan_a.json"
    path.write_text(json.dumps({"a": {str(n): {} for n in range(1001)}}))
    assert "holds 1,001 objects" in refusal(read, "boxes", path)


HDF5 = Path("features.hdf5")
SHAPE = (36, 8)


def unstored(file: h5py.File) -> None:
    file.create_dataset("scan_a", (36, 1 << 14), "f4")


def huge(file: h5py.File) -> None:
    file.create_dataset("scan_a", (36, 1 << 28), "f4")


def huge_chunk(file: h5py.File) -> None:
    file.create_dataset("scan_a", SHAPE, "f4", maxshape=(36, None), chunks=(36, 1 << 18), compression="gzip")[:] = 1


def external_link(file: h5py.File) -> None:
    file["scan_a"] = h5py.ExternalLink("/etc/hostname", "/x")


def soft_link(file: h5py.File) -> None:
    file["scan_b"] = np.zeros(SHAPE, "f4")
    file["scan_a"] = h5py.SoftLink("/scan_b")


def external_storage(file: h5py.File) -> None:
    file.create_dataset("scan_a", SHAPE, "f4", external=[("/dev/zero", 0, h5py.h5f.UNLIMITED)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(SHAPE, "f4")
    layout[:] = h5py.VirtualSource("elsewhere.hdf5", "x", SHAPE)
    file.create_virtual_dataset("scan_a", layout)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (unstored, "key scan_a: is of shape (36, 16384), but the file stores nothing of it"),
        (huge, "key scan_a: is float32 of shape (36, 268435456), more than the 32 MB"),
        (huge_chunk, "key scan_a: is float32 of shape (36, 8), more than the 32 MB"),
        (external_link, "key scan_a: is a link, not a dataset"),
        (soft_link, "key scan_a: is a link, not a dataset"),
        (external_storage, "key scan_a: lies in other files"),
        (virtual, "key scan_a: lies in other files"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_hdf5_holds_what_it_declares(tmp_path: Path, make: Callable[[h5py.File], None], words: str) -> None:
    with h5py.File(tmp_path / HDF5, "w") as file:
        make(file)
    assert words in refusal(read, "hdf5", tmp_path / HDF5)


def test_hdf5_does_not_unpack_to_any_size(tmp_path: Path) -> None:
    with h5py.File(tmp_path / HDF5, "w") as file:
        for number in range(1 + UNPACKED_ROOM // (LARGEST_DATASET // 2)):
            shape = (36, LARGEST_DATASET // 2 // 36 // 4)
            space, made = h5py.h5s.create_simple(shape), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk(shape)
            made.set_deflate(9)
            made.set_deflate(9)  # what is packed once packs again
            if number == 0:
                packed = h5py.h5d.create(file.id, b"scan_0", h5py.h5t.IEEE_F32LE, space, made)
                h5py.Dataset(packed)[:] = 0
                _, chunk = packed.read_direct_chunk((0, 0))
                continue
            name = f"scan_{number}".encode()
            h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F32LE, space, made).write_direct_chunk((0, 0), chunk)
    assert "unpacks to more than 16 times what it stores" in refusal(read, "hdf5", tmp_path / HDF5)


def test_hdf5_stores_a_dataset_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / HDF5, "w") as file:
        file["scan_0"] = np.zeros((36, 100_000), "f4")
        for number in range(1, 200):
            file[f"scan_{number}"] = file["scan_0"]
    assert "stores the same numbers under several names" in refusal(read, "hdf5", tmp_path / HDF5)


def test_object_ids_are_counted_before_they_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / HDF5, "w") as file:
        file["scan_a"] = np.zeros((3, 4), "f4")
        file["scan_a"].attrs["obj_ids"] = np.arange(5000)
    assert "'obj_ids' names 5,000 objects, more than 1,000" in refusal(read, "objects", tmp_path / HDF5)


def test_honest_neighbours_of_all_these_are_read(tiny: TinyData, tmp_path: Path) -> None:
    with h5py.File(tmp_path / HDF5, "w") as file:
        file.create_dataset("scan_a", data=np.zeros((36, 2048), "f4"), compression="gzip", compression_opts=9)
        file.create_dataset("scan_b", data=np.ones((36, 2048), "f4"), chunks=(1, 2048), shuffle=True)
    assert [panorama.viewpoint for panorama in read_features(tmp_path / HDF5)] == ["a", "b"]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(["x" * (3 << 20), {"a": "y" * (3 << 20)}]))
    assert len(list(stream_json_list(path, "list"))) == 2


def test_numbers_of_many_digits_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[0." + "1" * 30_000_000 + "]")
    assert "nothing was refused" in refusal(read, "json", path)
    with pytest.raises(DataError, match="number too long"):
        read_json(big(path, b"[1", b"1" * 100, 10_000, b"]"), "document")


def test_object_ids_of_other_kinds_are_not_read(tmp_path: Path) -> None:
    """h5py crashes on a text that damage has made a list."""
    with h5py.File(tmp_path / HDF5, "w") as file:
        file["scan_a"] = np.zeros((3, 4), "f4")
        file["scan_a"].attrs["obj_ids"] = ["1", "2", "3"]
    content = (tmp_path / HDF5).read_bytes()
    text = content.index(b"obj_ids\0") + 9  # the byte that says whether it is a text or a list
    (tmp_path / HDF5).write_bytes(content[:text] + b"\x00" + content[text + 1 :])
    assert "'obj_ids' is not a list of whole numbers or texts" in refusal(read, "objects", tmp_path / HDF5)
