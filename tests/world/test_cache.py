"""Built once, then opened; rebuilt when damaged or when what it was built from changes; never in the way."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from tests.processes import PATIENCE
from vlnbert.features.views import open_features, open_labels
from vlnbert.world import build
from vlnbert.world import cache as cache_module
from vlnbert.world.build import open_world
from vlnbert.world.cache import Key, cache_folder, cached, cached_in_pieces, content_digest


def same(one, other):
    return (
        (one.scans, one.viewpoints) == (other.scans, other.viewpoints)
        and one.tensors().keys() == other.tensors().keys()
        and all(torch.equal(one.tensors()[name], other.tensors()[name]) for name in one.tensors())
        and all(one.tensors()[name].dtype == other.tensors()[name].dtype for name in one.tensors())
    )


@pytest.fixture
def builds(monkeypatch):
    """Counts how often a world is built."""
    counted, real = [], build.build_world

    def counting(graphs):
        counted.append(len(graphs))
        return real(graphs)

    monkeypatch.setattr(build, "build_world", counting)
    return counted


def entry(cache):
    (path,) = cache.glob("world-*.safetensors")
    return path


def test_built_once_and_opened_equal(tiny, cache, builds):
    first = open_world(tiny.folder)
    assert same(first, open_world(tiny.root))
    assert builds == [3]
    assert list(cache.iterdir()) == [entry(cache)]


def test_changed_input_is_built_again(tiny, builds):
    first = open_world(tiny.folder)
    tiny.edit("connectivity/alpha_connectivity.json", lambda entries: entries[0]["pose"].__setitem__(3, -0.5))
    assert not same(first, open_world(tiny.folder))
    tiny.path("connectivity/gamma_connectivity.json").rename(tiny.path("connectivity/delta_connectivity.json"))
    assert open_world(tiny.folder).scans == ("alpha", "beta", "delta")
    assert builds == [3, 3, 3]


def test_another_version_is_built_again(tiny, builds, monkeypatch):
    open_world(tiny.folder)
    monkeypatch.setattr(build, "VERSION", build.VERSION + 1)
    open_world(tiny.folder)
    assert builds == [3, 3]


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_truncated_cache_is_built_again(tiny, cache, builds, size):
    first = open_world(tiny.folder)
    entry(cache).write_bytes(entry(cache).read_bytes()[:size])
    assert same(first, open_world(tiny.folder))
    assert same(first, open_world(tiny.folder))
    assert builds == [3, 3]


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(max_examples=200)
def test_one_wrong_byte_anywhere_is_noticed(cache, place, flip):
    """Header, names, digest or tensors: what is opened equals what was built."""
    tensors = {
        "a": torch.arange(5.0),
        "b": torch.arange(6, dtype=torch.int8).view(2, 3),
        "c": torch.tensor([True, False]),
    }
    names = {"scans": ["alpha", "beta"]}
    key = Key("thing", "0")
    key.path.unlink(missing_ok=True)
    cached(key, lambda: (tensors, names))
    content = bytearray(key.path.read_bytes())
    content[int(place * len(content))] ^= flip
    key.path.write_bytes(content)
    found, found_names = cached(key, lambda: (tensors, names))
    assert found_names == names
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_damaged_world_is_built_again(tiny, cache, builds):
    first = open_world(tiny.folder)
    content = bytearray(entry(cache).read_bytes())
    content[-9] ^= 1
    entry(cache).write_bytes(content)
    assert same(first, open_world(tiny.folder))
    assert builds == [3, 3]


def test_no_place_to_write_costs_time_alone(tiny, tmp_path, monkeypatch, builds):
    (tmp_path / "file").touch()
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "file" / "cache"))
    assert same(open_world(tiny.folder), open_world(tiny.folder))
    assert builds == [3, 3]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), SafetensorError("I/O error: no space left")])
def test_a_full_disk_costs_time_alone(tiny, cache, monkeypatch, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr(cache_module, "save_file", fail)
    assert len(open_world(tiny.folder)) == 17
    assert list(cache.iterdir()) == []


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("VLNBERT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "vlnbert"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "vlnbert"


def test_keys_differ_by_content_name_and_setting(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x")
    two.write_text("x")
    keys = [Key.of("k", [one], "a"), Key.of("k", [two], "a"), Key.of("k", [one], "b"), Key.of("k", [one, two], "a")]
    one.write_text("y")
    assert len({key.digest for key in [*keys, Key.of("k", [one], "a")]}) == 5
    assert Key.of("k", [one], "a") == Key.of("k", [one], "a")


@pytest.fixture
def read_again(monkeypatch):
    """Whether the digest of a file, held to be large, is taken from its content and not from memory."""
    monkeypatch.setattr(cache_module, "LARGE", 4)
    hashed, real = [], cache_module._hashed
    monkeypatch.setattr(cache_module, "_hashed", lambda path: hashed.append(path) or real(path))

    def digest(path):
        before = len(hashed)
        assert content_digest(path) == real(path)
        return len(hashed) > before

    return digest


def test_digests_of_large_files_are_remembered(tmp_path, monkeypatch, read_again):
    path, other, small = (tmp_path / name for name in ("a.bin", "b.bin", "c.bin"))
    for file, content in ((path, "12345"), (other, "12345"), (small, "123")):
        file.write_text(content)
    assert [read_again(file) for file in (path, path, other, path, other)] == [True, False, True, False, False]
    assert read_again(small)
    assert read_again(small)
    monkeypatch.chdir(tmp_path)
    assert not read_again(Path("a.bin")), "the same file by another way"
    state = path.stat()
    path.write_text("54321")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert [read_again(path), read_again(path)] == [True, False]
    path.write_text("543210")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert read_again(path)


@pytest.mark.parametrize(
    "content", ["", "[]", "null", '{"a": 1', '{"PATH": 3}', '{"PATH": ["x"]}', '{"PATH": {}}', "\0"]
)
def test_a_damaged_memory_is_ignored(tmp_path, cache, read_again, content):
    path = tmp_path / "a.bin"
    path.write_text("12345")
    cache.mkdir()
    (cache / "digests.json").write_text(content.replace("PATH", str(path)))
    assert [read_again(path), read_again(path)] == [True, False]
    assert [entry.name for entry in cache.iterdir()] == ["digests.json"]


def test_nowhere_to_remember(tmp_path, monkeypatch, read_again):
    path = tmp_path / "a.bin"
    path.write_text("12345")
    monkeypatch.setenv("VLNBERT_CACHE", str(path / "cache"))
    assert [read_again(path), read_again(path)] == [True, True]


@pytest.fixture
def hashed(monkeypatch):
    """The files whose content was read for a digest."""
    found, real = [], cache_module._hashed
    monkeypatch.setattr(cache_module, "_hashed", lambda path: found.append(path.name) or real(path))
    return found


def test_small_files_are_read_once_a_process(tmp_path, monkeypatch, hashed):
    monkeypatch.setattr(cache_module, "SETTLED", 0)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("12345")
    two.write_text("12345")
    digests = [content_digest(path) for path in (one, two, one, two)]
    assert len(set(digests)) == 1
    assert hashed == ["one", "two"]
    before = one.stat()
    time.sleep(0.02)  # a tick of the file system's clock
    one.write_text("54321")
    os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert content_digest(one) != digests[0], "though it has the same size and pretends to be as old"
    one.unlink()
    assert content_digest(one) == ""


def test_what_was_just_written_is_read_again(tmp_path, hashed):
    """Two changes within a tick of the file system's clock look like one."""
    path = tmp_path / "one"
    path.write_text("12345")
    assert content_digest(path) == content_digest(path)
    assert hashed == ["one", "one"]


@pytest.mark.parametrize("name", ["tiny.hdf5", "tiny.tsv"])
def test_features_and_labels_come_from_the_cache_too(tiny, world, monkeypatch, name):
    path = tiny.path(f"features/{name}")
    first, (labels, classes) = open_features(world, path), open_labels(world, tiny.folder.captions)
    monkeypatch.setattr("vlnbert.features.views.read_features", None)
    monkeypatch.setattr("vlnbert.features.views.read_captions", None)
    assert torch.equal(first.table, open_features(world, path).table)
    again, classes_again = open_labels(world, tiny.folder.captions)
    assert torch.equal(labels.table, again.table)
    assert classes == classes_again


def test_a_world_from_the_cache_needs_no_scipy(tiny, world):
    """To import it takes a fifth of a second."""
    code = f"{OPEN}; sys.exit('scipy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(tiny.root)], env=environment, stdout=subprocess.PIPE, check=True)


OPEN = "import sys; from vlnbert.world.build import open_world; print(open_world(sys.argv[1]).fingerprint())"


def test_two_processes_at_once(tiny, cache, world):
    entry(cache).unlink()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(tiny.root)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=PATIENCE)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed == [world.fingerprint()] * 2
    assert list(cache.iterdir()) == [entry(cache)]


def test_an_interrupted_build_goes_on_where_it_was(cache):
    key, made = Key("long", "0"), []

    def build(pieces, last=3):
        def make(number):
            made.append(number)
            if number == last:
                raise KeyboardInterrupt
            return torch.tensor([number])

        parts = [pieces.piece("vectors", str(number), lambda number=number: make(number)) for number in range(5)]
        return {"whole": torch.cat(parts)}, {}

    with pytest.raises(KeyboardInterrupt):
        cached_in_pieces(key, build)
    assert sorted(path.name[:5] for path in cache.iterdir()) == ["piece"] * 3
    tensors, _ = cached_in_pieces(key, lambda pieces: build(pieces, last=None))
    assert made == [0, 1, 2, 3, 3, 4]
    assert tensors["whole"].tolist() == [0, 1, 2, 3, 4]
    assert list(cache.iterdir()) == [key.path]
    cached_in_pieces(key, lambda _: pytest.fail("built again"))


def test_pieces_that_were_cut_otherwise_do_not_stay(cache):
    """A GPU reads more at a time than the CPU that goes on after it; the pieces of another whole are not touched."""
    key, other = Key("long", "0"), Key("long", "01")

    def broken(pieces):
        pieces.piece("vectors", "1024-0", lambda: torch.zeros(1))
        raise KeyboardInterrupt

    for one in (key, other):
        with pytest.raises(KeyboardInterrupt):
            cached_in_pieces(one, broken)
    cached_in_pieces(key, lambda pieces: ({"whole": pieces.piece("vectors", "256-0", lambda: torch.ones(1))}, {}))
    assert sorted(path.name for path in cache.iterdir()) == [
        "long-0.safetensors",
        "piece-long-01-vectors-1024-0.safetensors",
    ]
