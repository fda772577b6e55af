"""Write generated houses as a data folder: the layout and formats of the real one, whole or not at all."""

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
from vlnbert.house.building import NEAR, Building, build
from vlnbert.house.episodes import (
    FEWEST_SCANS,
    SPLITS,
    by_split,
    described_paths,
    r2r_record,
    reverie_records,
    split_of_scan,
)
from vlnbert.house.features import object_features, view_captions, view_features, view_observations
from vlnbert.house.panoramas import Panorama, panoramas
from vlnbert.house.plan_document import plan_document
from vlnbert.house.templates import vocabulary
from vlnbert.house.viewpoints import EYE, Viewpoint
from vlnbert.progress import track
from vlnbert.sources.writing import built_beside

R2R, REVERIE = "R2R", "REVERIE"
Episodes = dict[str, dict[str, list[dict[str, Any]]]]


@dataclass(frozen=True)
class HouseSummary:
    """What was written; `episodes` counts instructions by task and split."""

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

    The library does not survive a disk that is full: it tries to write what is left when the process ends, and crashes.
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
    """Writes one house after the other, and last what is gathered over all of them."""

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
    """What an object feature file says of the objects that some view shows: ids, the largest box, and its view."""
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
