"""Write generated houses as a data folder: the layout and formats of the real one, whole or not at all."""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py

from vlnbert.errors import UsageError
from vlnbert.house.building import Building, build
from vlnbert.house.captions import view_captions
from vlnbert.house.episodes import (
    FEWEST_SCANS,
    SPLITS,
    dealt,
    r2r_record,
    reverie_records,
    split_of_scan,
    walks_of,
)
from vlnbert.house.features import object_features, view_features
from vlnbert.house.records import boxes_of, connectivity, largest_boxes
from vlnbert.house.sights import panoramas
from vlnbert.house.vocabulary import vocabulary
from vlnbert.sources.files import progress
from vlnbert.sources.folders import built_beside

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
        writer = _Writer(beside, seed, paths_per_scan, feature_width, noise)
        files = beside / "features"
        with h5py.File(files / "views.hdf5", "w") as views, h5py.File(files / "objects.hdf5", "w") as objects:
            for number in progress(range(scans), "building houses", total=scans):
                writer.add_house(number, split_of_scan(number, scans), views, objects)
        return writer.finish()


def _check_options(scans: int, paths_per_scan: int, feature_width: int, noise: float) -> None:
    if scans < FEWEST_SCANS:
        raise UsageError(f"{scans} scans cannot fill the train, unseen and test splits; ask for {FEWEST_SCANS} or more")
    if paths_per_scan < 2:
        raise UsageError(f"{paths_per_scan} paths a scan cannot fill train and val_seen; ask for 2 or more")
    if feature_width < 1 or not 0.0 <= noise < float("inf"):
        raise UsageError(f"feature width {feature_width} and noise {noise} must be positive; noise may be 0")


class _Writer:
    def __init__(self, folder: Path, seed: int, paths_per_scan: int, width: int, noise: float) -> None:
        self.folder, self.seed, self.paths_per_scan, self.width, self.noise = folder, seed, paths_per_scan, width, noise
        self.names: list[str] = []
        self.viewpoints = self.objects = 0
        self.episodes: Episodes = {task: {split: [] for split in SPLITS} for task in (R2R, REVERIE)}
        for name in ("connectivity", "r2r", "reverie/BBox", "captions", "features"):
            (folder / name).mkdir(parents=True)

    def add_house(self, number: int, split: str, views: h5py.File, objects: h5py.File) -> None:
        building = build(self.seed, number)
        self.names.append(building.scan)
        self.viewpoints += sum(viewpoint.included for viewpoint in building.viewpoints)
        self.objects += len(building.things)
        self._json(f"connectivity/{building.scan}_connectivity.json", connectivity(building))
        self._add_sights(building, views, objects)
        self._add_episodes(number, building, split)

    def finish(self) -> HouseSummary:
        for task, splits in self.episodes.items():
            for split, records in splits.items():
                self._json(f"{task.lower()}/{task}_{split}.json", records, indent=2)
        self._lines("connectivity/scans.txt", self.names)
        self._lines("vocab.txt", vocabulary())
        counts = {
            task: {split: sum(len(record["instructions"]) for record in records) for split, records in splits.items()}
            for task, splits in self.episodes.items()
        }
        return HouseSummary(len(self.names), self.viewpoints, self.objects, counts)

    def _add_sights(self, building: Building, views: h5py.File, objects: h5py.File) -> None:
        rng = Random(f"{self.seed}/{building.scan}/captions")
        captions = {}
        for index, panorama in panoramas(building).items():
            name = building.viewpoints[index].name
            key = f"{building.scan}_{name}"
            views[key] = view_features(panorama, self.width, self.noise, f"{self.seed}/{key}")
            boxes = boxes_of(building, index, panorama)
            self._json(f"reverie/BBox/{key}.json", boxes, indent=2)
            if shown := largest_boxes(boxes[name]):
                things = [building.things[int(number)] for number in shown["obj_ids"]]
                objects[key] = object_features(things, self.width, self.noise, f"{self.seed}/{key}")
                objects[key].attrs.update(shown)
            captions[name] = view_captions(rng, panorama)
        self._json(f"captions/{building.scan}.json", captions)

    def _add_episodes(self, number: int, building: Building, split: str) -> None:
        walks = walks_of(self.seed, number, building, self.paths_per_scan)
        for part, members in dealt(walks, split).items():
            for walk in members:
                self.episodes[R2R][part].append(r2r_record(building, walk, part))
                self.episodes[REVERIE][part] += reverie_records(self.seed, building, walk, part)

    def _json(self, name: str, document: Any, indent: int | None = None) -> None:
        (self.folder / name).write_text(json.dumps(document, indent=indent), encoding="utf-8")

    def _lines(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
