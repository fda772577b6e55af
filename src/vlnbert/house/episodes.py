"""The episodes of a house: paths with instructions, dealt to splits, as records in the formats of R2R and REVERIE."""

from dataclasses import dataclass
from random import Random
from typing import Any

from vlnbert.house.building import Building
from vlnbert.house.language import instructions
from vlnbert.house.objects import Thing
from vlnbert.house.paths import Path, choose_paths
from vlnbert.house.referring import describe, request
from vlnbert.house.viewpoints import ROOM

TRAIN, VAL_SEEN, VAL_UNSEEN, TEST = "train", "val_seen", "val_unseen", "test"
SPLITS = (TRAIN, VAL_SEEN, VAL_UNSEEN, TEST)
SEEN_SHARE = 0.12  # of the paths of a training house, kept for val_seen
FEWEST_SCANS = 3
CROWD = 4  # objects that must be in sight at a REVERIE goal, so that guessing among them does not pay
TARGETS = 2  # objects asked for at one goal

Record = dict[str, Any]


@dataclass(frozen=True)
class Walk:
    """A path of a house with its number and its instructions."""

    number: int
    path: Path
    instructions: list[str]


def split_of_scan(number: int, scans: int) -> str:
    """The first houses train, the last few are for the test, and those between are unseen."""
    tests, unseen = max(1, round(0.1 * scans)), max(1, round(0.25 * scans))
    if number >= scans - tests:
        return TEST
    return VAL_UNSEEN if number >= scans - tests - unseen else TRAIN


def walks_of(seed: int, number: int, building: Building, count: int) -> list[Walk]:
    """The paths of a house, whatever their split."""
    rng = Random(f"{seed}/{number}/walks")
    paths = choose_paths(rng, building, count)
    return [Walk(number * count + i, path, instructions(rng, building, path)) for i, path in enumerate(paths)]


def dealt(walks: list[Walk], split: str) -> dict[str, list[Walk]]:
    """The walks of a house by split: a training house keeps its last ones for val_seen."""
    if split != TRAIN:
        return {split: walks}
    kept = len(walks) - max(1, round(SEEN_SHARE * len(walks)))
    return {TRAIN: walks[:kept], VAL_SEEN: walks[kept:]}


def r2r_record(building: Building, walk: Walk, split: str) -> Record:
    common = {
        "scan": building.scan,
        "path_id": walk.number,
        "path": _names(building, walk.path, split),
        "heading": walk.path.heading,
        "instructions": walk.instructions,
    }
    return common if split == TEST else {"distance": round(walk.path.length, 2), **common}


def reverie_records(seed: int, building: Building, walk: Walk, split: str) -> list[Record]:
    """The requests of a path: none where its goal is not a room with enough objects in sight."""
    rng = Random(f"{seed}/{building.scan}/{walk.number}/reverie")
    goal = walk.path.nodes[-1]
    near = building.things_near(goal)
    here = [thing for thing in near if thing.region in building.viewpoints[goal].regions]
    if building.viewpoints[goal].kind != ROOM or len(near) < CROWD:
        return []
    records = []
    for turn, thing in enumerate(rng.sample(here, min(TARGETS, len(here)))):
        texts = _requests(rng, building, walk, thing)
        if texts:
            records.append(_reverie_record(building, walk, split, thing, turn, texts))
    return records


def _requests(rng: Random, building: Building, walk: Walk, thing: Thing) -> list[str]:
    texts = []
    for _ in range(rng.randint(2, 3)):
        described = describe(rng, building, thing)
        if described:
            texts.append(request(rng, building, thing, described, walk.path))
    return texts


def _reverie_record(building: Building, walk: Walk, split: str, thing: Thing, turn: int, texts: list[str]) -> Record:
    path = _names(building, walk.path, split)
    if split == TEST:
        opaque = str(walk.number * TARGETS + turn)  # the real test file does not give the target away in its id either
        return {"path": path, "instructions": texts, "heading": walk.path.heading, "id": opaque, "scan": building.scan}
    return {
        "distance": round(walk.path.length, 2),
        "ix": walk.number,
        "scan": building.scan,
        "id": f"{walk.number}_{thing.number}",
        "instructions_l": walk.instructions,
        "path_id": walk.number,
        "objId": thing.number,
        "path": path,
        "heading": walk.path.heading,
        "instructions": texts,
    }


def _names(building: Building, path: Path, split: str) -> list[str]:
    nodes = path.nodes[:1] if split == TEST else path.nodes
    return [building.viewpoints[node].name for node in nodes]
