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
from vlnbert.house.building import EYE, NEAR, ROOM, Building, build
from vlnbert.house.language import describe_object, instructions, write_request
from vlnbert.house.plan import STAIRS, STOREY, HousePlan, Opening, Rectangle
from vlnbert.house.routes import Route, choose_paths
from vlnbert.house.templates import vocabulary
from vlnbert.house.views import Panorama, object_features, panoramas, view_captions, view_features, view_observations
from vlnbert.progress import track
from vlnbert.sources.annotations import FORMAT as PLAN_FORMAT
from vlnbert.sources.writing import built_beside

R2R, REVERIE = "R2R", "REVERIE"
TRAIN, VAL_SEEN, VAL_UNSEEN, TEST = "train", "val_seen", "val_unseen", "test"
SPLITS = (TRAIN, VAL_SEEN, VAL_UNSEEN, TEST)
SEEN_SHARE = 0.12  # of the paths of a training house, kept for val_seen
FEWEST_SCANS = 3
# Objects that must be in sight at a REVERIE goal, so that guessing among them does not pay.
CROWD = 4
TARGETS = 2  # objects asked for at one goal

Record = dict[str, Any]


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
    if scans < FEWEST_SCANS:
        raise UsageError(f"{scans} scans cannot fill the train, unseen and test splits; ask for {FEWEST_SCANS} or more")
    if paths_per_scan < 2:
        raise UsageError(f"{paths_per_scan} paths a scan cannot fill train and val_seen; ask for 2 or more")
    if feature_width < 1 or not 0.0 <= noise < float("inf"):
        raise UsageError(f"feature width {feature_width} and noise {noise} must be positive; noise may be 0")
    with built_beside(folder) as beside:
        writer = _FolderWriter(beside, seed, paths_per_scan, feature_width, noise)
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


class _FolderWriter:
    """Writes one house after the other, and then the files that gather all of them."""

    def __init__(self, folder: Path, seed: int, paths_per_scan: int, feature_width: int, noise: float) -> None:
        self.folder, self.seed, self.paths_per_scan = folder, seed, paths_per_scan
        self.feature_width, self.noise = feature_width, noise
        self.names: list[str] = []
        self.viewpoints = self.objects = 0
        self.episodes = {task: {split: list[Record]() for split in SPLITS} for task in (R2R, REVERIE)}
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
        rng = Random(f"{self.seed}/{number}/walks")
        paths = choose_paths(rng, building, self.paths_per_scan)
        # A training house keeps its last paths for val_seen.
        kept = len(paths) - max(1, round(SEEN_SHARE * len(paths))) if split == TRAIN else len(paths)
        for order, path in enumerate(paths):
            path_id, part = number * self.paths_per_scan + order, split if order < kept else VAL_SEEN
            texts = instructions(rng, building, path)
            self.episodes[R2R][part].append(r2r_record(building, path, path_id, texts, part))
            self.episodes[REVERIE][part] += reverie_records(self.seed, building, path, path_id, texts, part)

    def _write_json(self, name: str, document: Any, indent: int | None = None) -> None:
        (self.folder / name).write_text(json.dumps(document, indent=indent), encoding="utf-8")

    def _write_lines(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def connectivity_document(building: Building) -> list[dict[str, Any]]:
    """The graph of a house, as its connectivity file holds it."""
    rng = Random(f"{building.scan}/cameras")
    entries = []
    for index, viewpoint in enumerate(building.viewpoints):
        # The camera looks level in some direction: columns right, down, forward and position.
        (x, y, z), heading = viewpoint.position, rng.uniform(0.0, 6.283)
        cosine, sine = round(math.cos(heading), 6), round(math.sin(heading), 6)
        entries.append(
            {
                "image_id": viewpoint.name,
                "pose": [cosine, 0.0, sine, x, -sine, 0.0, cosine, y, 0.0, -1.0, 0.0, z, 0, 0, 0, 1],
                "included": viewpoint.included,
                "visible": building.visible[index].tolist(),
                "unobstructed": building.edges[index].tolist(),
                "height": EYE,
            }
        )
    return entries


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
    largest = dict[str, list[Any]]()
    for number, entry in entries.items():
        if entry["visible_pos"]:
            box, view = max(zip(entry["bbox2d"], entry["visible_pos"], strict=True), key=lambda at: at[0][2] * at[0][3])
            for key, value in (("obj_ids", int(number)), ("bboxes", box), ("viewindexs", view)):
                largest.setdefault(key, []).append(value)
    return largest


def split_of_scan(number: int, scans: int) -> str:
    """The first houses train, the last few are for the test, and those between are unseen."""
    tests, unseen = max(1, round(0.1 * scans)), max(1, round(0.25 * scans))
    if number >= scans - tests:
        return TEST
    return VAL_UNSEEN if number >= scans - tests - unseen else TRAIN


def r2r_record(building: Building, path: Route, path_id: int, texts: list[str], split: str) -> Record:
    """R2R's item for a path; of the test split, whose goals are withheld, only with the start of the path."""
    names = [building.viewpoints[node].name for node in path.nodes]
    item = {"scan": building.scan, "path_id": path_id, "path": names, "heading": path.heading, "instructions": texts}
    return {**item, "path": names[:1]} if split == TEST else {"distance": round(path.length, 2), **item}


def reverie_records(
    seed: int, building: Building, path: Route, path_id: int, texts: list[str], split: str
) -> list[Record]:
    """REVERIE's items for a path, an object each: none where its goal is not a room with enough objects in sight."""
    rng = Random(f"{seed}/{building.scan}/{path_id}/reverie")
    goal = building.viewpoints[path.nodes[-1]]
    near = building.objects_near(path.nodes[-1])
    in_room = [thing for thing in near if thing.region in goal.regions]
    if goal.kind != ROOM or len(near) < CROWD:
        return []
    records, item = [], r2r_record(building, path, path_id, texts, split)
    for order, target in enumerate(rng.sample(in_room, min(TARGETS, len(in_room)))):
        # A generator, so that each description is followed by its request.
        described = (describe_object(rng, building, target) for _ in range(rng.randint(2, 3)))
        requests = [write_request(rng, building, target, description=d, path=path) for d in described if d]
        if not requests:
            continue
        # The order of the keys is that of the published files.
        record = {
            "distance": round(path.length, 2),
            "ix": path_id,
            "scan": building.scan,
            "id": f"{path_id}_{target.number}",
            "instructions_l": texts,
            "path_id": path_id,
            "objId": target.number,
            "path": item["path"],
            "heading": path.heading,
            "instructions": requests,
        }
        if split == TEST:
            # The id of the real test file does not give the target away either.
            record["id"] = str(path_id * TARGETS + order)
            record = {key: record[key] for key in ("path", "instructions", "heading", "id", "scan")}
        records.append(record)
    return records


def plan_document(building: Building) -> dict[str, Any]:
    """The plan of a house, `plans/<scan>.json`, in metres of the graph's frame; floors are given by an eye's height."""
    plan = building.plan
    return {
        "format": PLAN_FORMAT,
        "scan": building.scan,
        "floors": [{"z": round(floor * STOREY + EYE, 3)} for floor in range(plan.floors)],
        "rooms": [
            {"name": region.kind, "floor": region.floor, "polygon": _polygon(plan, region.box)}
            for region in plan.regions
            if region.kind != STAIRS
        ],
        "doors": [_door_document(plan, door) for door in (*plan.doors, *plan.stair_openings)],
        "stairs": [{"floor": well.floor, "polygon": _polygon(plan, well.box)} for well in plan.stairwells[:-1]],
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
    start, end = _in_graph(plan, door.x - x, door.y - y), _in_graph(plan, door.x + x, door.y + y)
    return {"floor": door.floor, "from": start, "to": end}


def _in_graph(plan: HousePlan, x: float, y: float) -> list[float]:
    """A point of the plan in the graph's frame, to the millimetre."""
    return [round(part, 3) for part in plan.to_world(x, y)]
