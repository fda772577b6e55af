"""The episodes of a house: paths with instructions, dealt to splits, as records in the formats of R2R and REVERIE."""

from dataclasses import dataclass
from random import Random
from typing import Any

from vlnbert.house.building import Building
from vlnbert.house.instructions import instructions
from vlnbert.house.objects import HouseObject
from vlnbert.house.requests import describe_object, write_request
from vlnbert.house.routes import Path, choose_paths
from vlnbert.house.viewpoints import ROOM

TRAIN, VAL_SEEN, VAL_UNSEEN, TEST = "train", "val_seen", "val_unseen", "test"
SPLITS = (TRAIN, VAL_SEEN, VAL_UNSEEN, TEST)
SEEN_SHARE = 0.12  # of the paths of a training house, kept for val_seen
FEWEST_SCANS = 3
CROWD = 4  # objects that must be in sight at a REVERIE goal, so that guessing among them does not pay
TARGETS = 2  # objects asked for at one goal

Record = dict[str, Any]


@dataclass(frozen=True)
class DescribedPath:
    """A path of a house with its number and its R2R instructions."""

    path_id: int
    path: Path
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


def _requests(rng: Random, building: Building, path: Path, thing: HouseObject) -> list[str]:
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


def _names(building: Building, path: Path, split: str) -> list[str]:
    """The viewpoints of a path; of the test split, whose goals are withheld, only the start."""
    nodes = path.nodes[:1] if split == TEST else path.nodes
    return [building.viewpoints[node].name for node in nodes]
