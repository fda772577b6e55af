"""A tiny data folder in the real formats, made by code so that a test can break one thing in it; a cache of its own; a
watch for what waits for the device."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from tests import durations
from vlnbert import plugins, registry
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError
from vlnbert.house import generate
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.sources.features import VIEWS
from vlnbert.sources.layout import DataFolder
from vlnbert.world.build import open_world
from vlnbert.world.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out what tests/durations.json says is slow")
    parser.addoption("--record-durations", type=Path, metavar="FILE", help="write how long tests took")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--record-durations"):
        config.pluginmanager.register(durations.Recorder(path))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--fast") and durations.is_elsewhere(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        items[:], others = durations.split_fast(items)
        config.hook.pytest_deselected(items=others)


settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("tests")

# Three scans: a ring with a tail; one with an excluded and an isolated viewpoint; one in two halves.
POSITIONS = {
    "alpha": [(0, 0, 0), (0, 2, 0), (3, 2, 0), (2, 0, 0), (4, 0, 1), (4, 0, 4)],
    "beta": [(0, 0, 0), (0, -3, 0), (-2, -3, 0.5), (-5, -3, 0), (1, 1, 0), (9, 9, 0)],
    "gamma": [(0, 0, 0), (1, 0, 0), (2, 0, 0), (20, 0, 0), (21, 0, 0), (22, 1, 0)],
}
EDGES = {
    "alpha": [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5)],
    "beta": [(0, 1), (1, 2), (2, 3), (0, 4), (1, 4)],
    "gamma": [(0, 1), (1, 2), (3, 4), (4, 5)],
}
EXCLUDED = {("beta", 4)}  # an edge leads there all the same; beta's viewpoint 5 has no edge at all
WIDTH = 6
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = "walk to the door go up stair ##s and stop . , blue chair find it ##un"


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches the user's cache or states, not even through a fixture that outlives it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLNBERT_STATE", str(tmp_path_factory.mktemp("state")))
        patch.setenv("VLNBERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test alone; its folder of states is as new."""
    monkeypatch.setenv("VLNBERT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _no_plugins_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has loaded is not recorded by the runs of this one."""
    monkeypatch.setattr(plugins, "_loaded", {})


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generated house that nobody changes."""
    folder = tmp_path_factory.mktemp("shared") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


class TinyData:
    """The folder, what was written into it, and ways to break it."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, DataFolder(root)
        self.features = _features()
        for scan in POSITIONS:
            self.write(f"connectivity/{scan}_connectivity.json", connectivity(scan))
            self.write(f"captions/{scan}.json", {name: panorama_captions(name) for name in names(scan)})
            self.write(f"observations/{scan}.json", {name: panorama_observations(name) for name in names(scan)})
        for split, items in _splits().items():
            self.write(split, items)
        for scan, name in included():
            self.write(f"reverie/BBox/{scan}_{name}.json", {name: _objects(name)})
        self.path("vocab.txt").write_text("\n".join((*SPECIAL, *WORDS.split())) + "\n")
        self.path("features").mkdir()
        write_hdf5(self.path("features/tiny.hdf5"), self.features)
        write_tsv(self.path("features/tiny.tsv"), self.features)

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> Any:
        return json.loads(self.path(name).read_text())

    def write(self, name: str, document: Any) -> Path:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(json.dumps(document))
        return self.path(name)

    def edit(self, name: str, change: Callable[[Any], object]) -> Path:
        """Change a JSON file in place."""
        document = self.read(name)
        change(document)
        return self.write(name, document)

    def cut(self, name: str, size: int) -> Path:
        """Truncate a file: to `size` bytes, or by as many where negative."""
        self.path(name).write_bytes(self.path(name).read_bytes()[:size])
        return self.path(name)


@pytest.fixture
def tiny(tmp_path: Path) -> TinyData:
    return TinyData(tmp_path / "tiny")


@pytest.fixture
def world(tiny: TinyData) -> World:
    return open_world(tiny.folder)


@pytest.fixture
def environment(world: World) -> Environment:
    return Environment(world)


Refuses = Callable[..., None]


@pytest.fixture
def refuses() -> Refuses:
    """Check that a call reports the faults of a path: one line each with the path, the given words and a remedy."""

    def check(path: Path, call: Callable[[], object], *expected: str) -> None:
        with pytest.raises(DataError) as caught:
            call()
        lines = str(caught.value).splitlines()
        assert len(lines) == len(expected), lines
        for line, words in zip(lines, expected, strict=True):
            assert line.startswith(f"{path}: ")
            assert words in line
            assert line.rpartition("; ")[2].strip(), "no remedy"

    return check


class NoWaiting(TorchDispatchMode):
    """Fails on operations that bring a value to the host, or whose shape depends on values."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        assert not any(name in str(func) for name in ("_local_scalar_dense", "nonzero", "masked_select", "unique"))
        if "index.Tensor" in str(func):
            assert not any(index is not None and index.dtype == torch.bool for index in args[1]), "a mask as an index"
        return func(*args, **(kwargs or {}))


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """A block in which nothing may wait for the device; some ways to wait pass the dispatcher by."""

    def fail(*_: object) -> None:
        raise AssertionError("brings a tensor to the host")

    @contextmanager
    def watch() -> Iterator[None]:
        with NoWaiting(), monkeypatch.context() as patch:
            for name in ("tolist", "numpy", "cpu"):
                patch.setattr(torch.Tensor, name, fail)
            yield

    return watch


@pytest.fixture
def forget_plugins() -> Iterator[Callable[[], None]]:
    """Plugins and what they register are forgotten when it is called, as in a new process, and after the test."""

    before = [(one, dict(one._things), dict(one._homes)) for one in registry.REGISTRIES]

    def forget() -> None:
        plugins._loaded.clear()
        for one, things, homes in before:
            # Those imported meanwhile, in their order: that of the metrics is that of a table's columns.
            ours = [name for name, home in one._homes.items() if home.startswith("vlnbert.")]
            one._things = {name: one._things[name] for name in ours if name in one._things} | things
            one._homes = {name: one._homes[name] for name in ours} | homes

    yield forget
    forget()


@pytest.fixture(scope="session")
def random_graph() -> Callable[..., ScanGraph]:
    """A graph of `parts` random trees with `extra` edges within them; viewpoints lie anywhere."""

    def make(seed: int, count: int, extra: int, parts: int = 1) -> ScanGraph:
        rng = np.random.default_rng(seed)
        adjacent = np.zeros((count, count), dtype=bool)
        for index in range(parts, count):
            adjacent[index, rng.choice(np.arange(index % parts, index, parts))] = True
        for start, end in rng.integers(count, size=(extra, 2)):
            adjacent[start, end] |= start != end and start % parts == end % parts
        names = tuple(f"v{index}" for index in range(count))
        return ScanGraph(f"random{seed}", names, rng.uniform(-10, 10, (count, 3)), adjacent | adjacent.T)

    return make


@pytest.fixture(scope="session")
def write_features() -> Callable[..., Path]:
    """Write features by (scan, viewpoint) as HDF5 or TSV, by the name of the file."""

    def write(path: Path, features: dict[tuple[str, str], NDArray[Any]], dtype: str = "float32") -> Path:
        return write_tsv(path, features) if path.suffix == ".tsv" else write_hdf5(path, features, dtype)

    return write


def names(scan: str) -> list[str]:
    return [f"{scan[0]}{index}" for index in range(len(POSITIONS[scan]))]


def included() -> list[tuple[str, str]]:
    return [(scan, name) for scan in POSITIONS for k, name in enumerate(names(scan)) if (scan, k) not in EXCLUDED]


def connectivity(scan: str) -> list[dict[str, Any]]:
    """A scan in the format of the Matterport3D simulator."""
    count = len(POSITIONS[scan])
    flags = np.zeros((count, count), dtype=bool)
    for start, end in EDGES[scan]:
        flags[start, end] = flags[end, start] = True
    return [
        {
            "image_id": name,
            "pose": [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z, 0, 0, 0, 1],
            "included": (scan, index) not in EXCLUDED,
            "visible": flags[index].tolist(),
            "unobstructed": flags[index].tolist(),
            "height": 1.5,
        }
        for index, (name, (x, y, z)) in enumerate(zip(names(scan), POSITIONS[scan], strict=True))
    ]


def panorama_captions(name: str) -> dict[str, Any]:
    """A caption for each view, shared by view and its opposite, and up to three detections."""
    chair = {"obj_class": "chair", "coordinates": "1 2 3 4", "confidence": "0.40", "caption": "a chair"}
    table = {"obj_class": "table", "coordinates": "0 0 639 479", "confidence": "0.75", "caption": "a table"}
    surer = {**chair, "confidence": "0.90"}
    found = [[], [chair], [chair, table], [chair, surer, chair]]
    return {
        str(view): {"global_cap": f"view {view % 6} of {name[0]}", "dense_cap": found[(view + int(name[1])) % 4]}
        for view in range(VIEWS)
    }


def panorama_observations(name: str) -> list[str]:
    """A text for each of eight headings: at each elevation the heading's own words, shared by all viewpoints."""
    words = ("sofa", "table", "lamp", "chair", "bed", "door", "window", "plant")
    return [f"down: a rug and a {word}\nmiddle: a {word} in {name[0]}\ntop: a ceiling and a {word}" for word in words]


def write_hdf5(path: Path, features: dict[tuple[str, str], NDArray[Any]], dtype: str = "float32") -> Path:
    with h5py.File(path, "w") as file:
        for (scan, name), values in features.items():
            file[f"{scan}_{name}"] = values.astype(dtype)
    return path


def write_tsv(path: Path, features: dict[tuple[str, str], NDArray[Any]]) -> Path:
    rows = [
        f"{scan}\t{name}\t640\t480\t60\t{base64.b64encode(values.astype('<f4').tobytes()).decode()}\n"
        for (scan, name), values in features.items()
    ]
    path.write_text("".join(rows))
    return path


def _features() -> dict[tuple[str, str], NDArray[np.float32]]:
    """Multiples of 1/16, so that half precision holds them exactly."""
    rng = np.random.default_rng(0)
    places = [(scan, name) for scan in POSITIONS for name in names(scan)]  # real files hold the excluded ones too
    return {place: rng.integers(1, 64, (VIEWS, WIDTH)).astype(np.float32) / 16 for place in places}


def _objects(name: str) -> dict[str, Any]:
    """Object 7 is seen from viewpoints 3 and 4 alone; object 8 is near everywhere and visible nowhere."""
    seen = {"name": "chair", "visible_pos": [3, 15], "bbox2d": [[0, 0, 10, 20], [5, 6.5, 7, 8]]}
    hidden = {"name": "lamp", "visible_pos": [], "bbox2d": []}
    return {"7": seen if name[1] in "34" else {**hidden, "name": "chair"}, "8": hidden}


def _splits() -> dict[str, list[dict[str, Any]]]:
    texts = ["Walk to the blue door.", "Go up the stairs and stop"]
    first = {"scan": "alpha", "heading": 0.1, "path": ["a0", "a3", "a4"], "instructions": texts}
    second = {"scan": "beta", "heading": 6.2, "path": ["b3", "b2", "b1", "b0"], "instructions": texts[:1]}
    third = {"scan": "gamma", "heading": 3, "path": ["g5", "g4"], "instructions": texts[1:]}
    r2r = [{**item, "path_id": 10 + index, "distance": 5.0} for index, item in enumerate((first, second, third))]
    starts = [{**item, "path": item["path"][:1]} for item in r2r]
    coarse = {**first, "path_id": 10, "objId": 7, "instructions": ["find the blue chair"]}
    hidden = {**second, "path_id": 11, "objId": 8, "instructions": ["find it"]}
    version_1 = [{**item, "id": f"{item['path_id']}_{item['objId']}", "ix": 1} for item in (coarse, hidden)]
    tests = [{"id": "77", "scan": "beta", "heading": 1.0, "path": ["b0"], "instructions": ["find the door", "find it"]}]
    augmented = [{**r2r[0], "path_id": "x_1", "instructions": texts[:1], "instr_enc": [2, 5, 6, 7, 8, 3, 0, 0, 0]}]
    return {
        "r2r/R2R_train.json": r2r,
        "r2r/R2R_val_unseen.json": r2r[1:],
        "r2r/R2R_test.json": starts,
        "r2r/prevalent_aug.json": augmented,
        "reverie/REVERIE_train.json": [{**item, "instructions_l": texts} for item in version_1],
        "reverie/REVERIE_val_unseen.json": [coarse, hidden],
        "reverie/REVERIE_test.json": tests,
    }
