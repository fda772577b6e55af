"""Write generated houses as a data folder, in the layout and formats of the real one, whole or not at all."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from vlnbert.errors import UsageError
from vlnbert.house.building import EYE, NEAR, ROOM, Building, Viewpoint, build
from vlnbert.house.language import describe_object, instructions, write_request
from vlnbert.house.objects import HouseObject
from vlnbert.house.plan import STAIRS, STOREY, HousePlan, Opening, Rectangle
from vlnbert.house.routes import Route, choose_paths
from vlnbert.house.templates import vocabulary
from vlnbert.house.views import Panorama, object_features, panoramas, view_captions, view_features, view_observations
from vlnbert.progress import track
from vlnbert.sources.writing import built_beside

R2R, REVERIE = "R2R", "REVERIE"
TRAIN, VAL_SEEN, VAL_UNSEEN, TEST = "train", "val_seen", "val_unseen", "test"
SPLITS = (TRAIN, VAL_SEEN, VAL_UNSEEN, TEST)
SEEN_SHARE = 0.12  # of the paths of a training house, kept for val_seen
FEWEST_SCANS = 3
CROWD = 4  # objects that must be in sight at a REVERIE goal, so that guessing among them does not pay
TARGETS = 2  # objects asked for at one goal
PLAN_FORMAT = 1

Episodes = dict[str, dict[str, list[dict[str, Any]]]]


@dataclass(frozen=True)
class HouseSummary:
    """Counts of a generated data folder; `episodes` counts instructions by task and split."""

    scans: int
    viewpoints: int
    objects: int
    episodes: dict[str, dict[str, int]]


def generate(
    folder: Path,
    *,
    seed: int = 0,
    scans: int = 24,
    paths_per_scan: int = 160,
    feature_width: int = 128,
    noise: float = 0.2,
) -> HouseSummary:
    """Write `scans` generated houses to `folder`, a new or empty one.

    `paths_per_scan` is a limit that only a very small house does not reach. `noise` is the deviation of the noise in
    the view features, whose signal has a deviation of about one half where something is in sight.
    """
    _check_options(scans, paths_per_scan, feature_width, noise)
    with built_beside(folder) as beside:
        writer = _FolderWriter(
            beside, seed=seed, paths_per_scan=paths_per_scan, feature_width=feature_width, noise=noise
        )
        files = beside / "features"
        with hdf5_in_memory(files / "views.hdf5") as views, hdf5_in_memory(files / "objects.hdf5") as objects:
            for number in track(range(scans), "building houses", total=scans):
                writer.add_house(number, split_of_scan(number, scans), views, objects)
        return writer.finish()


@contextmanager
def hdf5_in_memory(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file that is made in memory and written once it is whole.

    The library does not survive a full disk: it tries to write the rest when the process ends, and crashes.
    """
    with h5py.File(path.name, "w", driver="core", backing_store=False) as file:
        yield file
        file.flush()
        image: bytes = file.id.get_file_image()
    path.write_bytes(image)


def _check_options(scans: int, paths_per_scan: int, feature_width: int, noise: float) -> None:
    if scans < FEWEST_SCANS:
        raise UsageError(f"{scans} scans cannot fill the train, unseen and test splits; ask for {FEWEST_SCANS} or more")
    if paths_per_scan < 2:
        raise UsageError(f"{paths_per_scan} paths a scan cannot fill train and val_seen; ask for 2 or more")
    if feature_width < 1 or not 0.0 <= noise < float("inf"):
        raise UsageError(f"feature width {feature_width} and noise {noise} must be positive; noise may be 0")


class _FolderWriter:
    """Writes one house after the other, and then the files that gather all of them."""

    def __init__(self, folder: Path, *, seed: int, paths_per_scan: int, feature_width: int, noise: float) -> None:
        self.folder, self.seed, self.paths_per_scan = folder, seed, paths_per_scan
        self.feature_width, self.noise = feature_width, noise
        self.names: list[str] = []
        self.viewpoints = self.objects = 0
        self.episodes: Episodes = {task: {split: [] for split in SPLITS} for task in (R2R, REVERIE)}
        for name in ("connectivity", "r2r", "reverie/BBox", "captions", "observations", "features", "plans"):
            (folder / name).mkdir(parents=True)

    def add_house(self, number: int, split: str, views: h5py.File, objects: h5py.File) -> None:
        building = build(self.seed, number)
        self.names.append(building.scan)
        self.viewpoints += sum(viewpoint.included for viewpoint in building.viewpoints)
        self.objects += len(building.objects)
        self._write_json(f"connectivity/{building.scan}_connectivity.json", connectivity_document(building))
        self._write_json(f"plans/{building.scan}.json", plan_document(building))
        self._add_panoramas(building, views, objects)
        self._add_episodes(number, building, split)

    def finish(self) -> HouseSummary:
        for task, splits in self.episodes.items():
            for split, records in splits.items():
                self._write_json(f"{task.lower()}/{task}_{split}.json", records, indent=2)
        self._write_lines("connectivity/scans.txt", self.names)
        self._write_lines("vocab.txt", vocabulary())
        counts = {
            task: {split: sum(len(record["instructions"]) for record in records) for split, records in splits.items()}
            for task, splits in self.episodes.items()
        }
        return HouseSummary(len(self.names), self.viewpoints, self.objects, counts)

    def _add_panoramas(self, building: Building, views: h5py.File, objects: h5py.File) -> None:
        rng = Random(f"{self.seed}/{building.scan}/captions")
        observing = Random(f"{self.seed}/{building.scan}/observations")
        captions, observations = {}, {}
        for index, panorama in panoramas(building).items():
            name = building.viewpoints[index].name
            key = f"{building.scan}_{name}"
            views[key] = view_features(panorama, self.feature_width, self.noise, f"{self.seed}/{key}")
            boxes = box_document(building, index, panorama)
            self._write_json(f"reverie/BBox/{key}.json", boxes, indent=2)
            if shown := largest_boxes(boxes[name]):
                items = [building.objects[number] for number in shown["obj_ids"]]
                objects[key] = object_features(items, self.feature_width, self.noise, f"{self.seed}/{key}")
                objects[key].attrs.update(shown)
            captions[name] = view_captions(rng, panorama)
            observations[name] = view_observations(observing, panorama)
        self._write_json(f"captions/{building.scan}.json", captions)
        self._write_json(f"observations/{building.scan}.json", observations)

    def _add_episodes(self, number: int, building: Building, split: str) -> None:
        paths = described_paths(self.seed, number, building, self.paths_per_scan)
        for part, members in by_split(paths, split).items():
            for path in members:
                self.episodes[R2R][part].append(r2r_record(building, path, part))
                self.episodes[REVERIE][part] += reverie_records(self.seed, building, path, part)

    def _write_json(self, name: str, document: Any, indent: int | None = None) -> None:
        (self.folder / name).write_text(json.dumps(document, indent=indent), encoding="utf-8")

    def _write_lines(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def connectivity_document(building: Building) -> list[dict[str, Any]]:
    """The graph of a house, as its connectivity file holds it."""
    rng = Random(f"{building.scan}/cameras")
    return [
        {
            "image_id": viewpoint.name,
            "pose": _pose(rng, viewpoint),
            "included": viewpoint.included,
            "visible": building.visible[index].tolist(),
            "unobstructed": building.edges[index].tolist(),
            "height": EYE,
        }
        for index, viewpoint in enumerate(building.viewpoints)
    ]


def box_document(building: Building, index: int, panorama: Panorama) -> dict[str, Any]:
    """The objects within 3 m of a viewpoint; one behind a wall is listed too, with no view that shows it."""
    visible = [element.object.number for element in panorama.elements if element.object]
    rows = {number: row for row, number in enumerate(visible)}
    entries = {}
    for number in np.flatnonzero(building.object_distance[index] <= NEAR).tolist():
        views = np.flatnonzero(panorama.boxed[rows[number]]).tolist() if number in rows else []
        entries[str(number)] = {
            "name": building.objects[number].name.replace(" ", "#"),
            "visible_pos": views,
            "bbox2d": [panorama.boxes[rows[number], view].tolist() for view in views],
        }
    return {building.viewpoints[index].name: entries}


def largest_boxes(entries: dict[str, Any]) -> dict[str, list[Any]]:
    """The attributes of a dataset of object features, for objects in view: ids, the largest box, and its view."""
    shown = {number: entry for number, entry in entries.items() if entry["visible_pos"]}
    best = [int(np.argmax([box[2] * box[3] for box in entry["bbox2d"]])) for entry in shown.values()]
    if not shown:
        return {}
    return {
        "obj_ids": [int(number) for number in shown],
        "bboxes": [entry["bbox2d"][place] for entry, place in zip(shown.values(), best, strict=True)],
        "viewindexs": [entry["visible_pos"][place] for entry, place in zip(shown.values(), best, strict=True)],
    }


def _pose(rng: Random, viewpoint: Viewpoint) -> list[float]:
    """A camera that looks level in some direction: columns right, down, forward and position."""
    x, y, z = viewpoint.position
    heading = rng.uniform(0.0, 6.283)
    cosine, sine = round(math.cos(heading), 6), round(math.sin(heading), 6)
    return [cosine, 0.0, sine, x, -sine, 0.0, cosine, y, 0.0, -1.0, 0.0, z, 0, 0, 0, 1]


Record = dict[str, Any]


@dataclass(frozen=True)
class DescribedPath:
    """A path of a house with its number and its R2R instructions."""

    path_id: int
    path: Route
    instructions: list[str]


def split_of_scan(number: int, scans: int) -> str:
    """The first houses train, the last few are for the test, and those between are unseen."""
    tests, unseen = max(1, round(0.1 * scans)), max(1, round(0.25 * scans))
    if number >= scans - tests:
        return TEST
    return VAL_UNSEEN if number >= scans - tests - unseen else TRAIN


def described_paths(seed: int, number: int, building: Building, count: int) -> list[DescribedPath]:
    """The paths of a house, whatever their split."""
    rng = Random(f"{seed}/{number}/walks")
    paths = enumerate(choose_paths(rng, building, count), start=number * count)
    return [DescribedPath(path_id, path, instructions(rng, building, path)) for path_id, path in paths]


def by_split(paths: list[DescribedPath], scan_split: str) -> dict[str, list[DescribedPath]]:
    """The paths of a house by split: a training house keeps its last ones for val_seen."""
    if scan_split != TRAIN:
        return {scan_split: paths}
    kept = len(paths) - max(1, round(SEEN_SHARE * len(paths)))
    return {TRAIN: paths[:kept], VAL_SEEN: paths[kept:]}


def r2r_record(building: Building, described: DescribedPath, split: str) -> Record:
    common = {
        "scan": building.scan,
        "path_id": described.path_id,
        "path": _names(building, described.path, split),
        "heading": described.path.heading,
        "instructions": described.instructions,
    }
    return common if split == TEST else {"distance": round(described.path.length, 2), **common}


def reverie_records(seed: int, building: Building, described: DescribedPath, split: str) -> list[Record]:
    """The requests of a path: none where its goal is not a room with enough objects in sight."""
    rng = Random(f"{seed}/{building.scan}/{described.path_id}/reverie")
    goal = described.path.nodes[-1]
    near = building.objects_near(goal)
    here = [thing for thing in near if thing.region in building.viewpoints[goal].regions]
    if building.viewpoints[goal].kind != ROOM or len(near) < CROWD:
        return []
    records = []
    for order, thing in enumerate(rng.sample(here, min(TARGETS, len(here)))):
        texts = _requests(rng, building, described.path, thing)
        if texts:
            records.append(_reverie_record(building, described, split, target=thing, order=order, texts=texts))
    return records


def _requests(rng: Random, building: Building, path: Route, thing: HouseObject) -> list[str]:
    texts = []
    for _ in range(rng.randint(2, 3)):
        description = describe_object(rng, building, thing)
        if description:
            texts.append(write_request(rng, building, thing, description=description, path=path))
    return texts


def _reverie_record(
    building: Building, described: DescribedPath, split: str, *, target: HouseObject, order: int, texts: list[str]
) -> Record:
    path, heading = _names(building, described.path, split), described.path.heading
    if split == TEST:  # the id of the real test file does not give the target away either
        opaque = str(described.path_id * TARGETS + order)
        return {"path": path, "instructions": texts, "heading": heading, "id": opaque, "scan": building.scan}
    return {
        "distance": round(described.path.length, 2),
        "ix": described.path_id,
        "scan": building.scan,
        "id": f"{described.path_id}_{target.number}",
        "instructions_l": described.instructions,
        "path_id": described.path_id,
        "objId": target.number,
        "path": path,
        "heading": heading,
        "instructions": texts,
    }


def _names(building: Building, path: Route, split: str) -> list[str]:
    """The viewpoints of a path; of the test split, whose goals are withheld, only the start."""
    nodes = path.nodes[:1] if split == TEST else path.nodes
    return [building.viewpoints[node].name for node in nodes]


def plan_document(building: Building) -> dict[str, Any]:
    """The plan of a house, `plans/<scan>.json`, for people who look at it: floors, rooms, doors, stairs and objects.

    Positions are metres of the graph's own frame, x and y; floors count from the lowest, 0, and are given by the height
    of an eye.
    """
    plan = building.plan
    wells = plan.stairwells
    return {
        "format": PLAN_FORMAT,
        "scan": building.scan,
        "floors": [{"z": round(floor * STOREY + EYE, 3)} for floor in range(plan.floors)],
        "rooms": [
            {"name": region.kind, "floor": region.floor, "polygon": _polygon(plan, region.box)}
            for region in plan.regions
            if region.kind != STAIRS
        ],
        "doors": [
            *(_door_document(plan, door) for door in plan.doors),
            *(_way_in(plan, well.floor, well.box) for well in wells),
        ],
        "stairs": [{"floor": well.floor, "polygon": _polygon(plan, well.box)} for well in wells[:-1]],
        "objects": [
            {"id": str(thing.number), "name": thing.name, "floor": thing.floor, "x": x, "y": y}
            for thing in building.objects
            for x, y in [_in_graph(plan, thing.x, thing.y)]
        ],
    }


def _polygon(plan: HousePlan, box: Rectangle) -> list[list[float]]:
    corners = (box.left, box.bottom), (box.right, box.bottom), (box.right, box.top), (box.left, box.top)
    return [_in_graph(plan, *corner) for corner in corners]


def _door_document(plan: HousePlan, door: Opening) -> dict[str, Any]:
    x, y = (door.half, 0.0) if door.along == "x" else (0.0, door.half)
    ends = _in_graph(plan, door.x - x, door.y - y), _in_graph(plan, door.x + x, door.y + y)
    return {"floor": door.floor, "from": ends[0], "to": ends[1]}


def _way_in(plan: HousePlan, floor: int, well: Rectangle) -> dict[str, Any]:
    """A stairwell is open to its hallway."""
    ends = _in_graph(plan, well.left, well.bottom), _in_graph(plan, well.right, well.bottom)
    return {"floor": floor, "from": ends[0], "to": ends[1]}


def _in_graph(plan: HousePlan, x: float, y: float) -> list[float]:
    """A point of the plan in the graph's frame, to the millimetre."""
    return [round(part, 3) for part in plan.to_world(x, y)]
