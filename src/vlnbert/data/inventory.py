"""Contents of a data folder and their faults: every file is read and compared with the graphs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vlnbert.errors import VlnbertError, listed
from vlnbert.features.objects import find_fit, placed_objects
from vlnbert.features.views import captions_of, observations_of, placed
from vlnbert.progress import track
from vlnbert.sources.annotations import HEADINGS, LEVELS, BoxRange, ViewpointObjects, read_box_folder, read_plan
from vlnbert.sources.connectivity import ScanGraph, read_connectivity
from vlnbert.sources.features import read_features, read_object_features
from vlnbert.sources.instructions import read_word_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import bind, load_episodes
from vlnbert.tasks.splits import report_targets, task_and_split
from vlnbert.tasks.task import AUGMENTED_FILE, TASKS
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.tasks.word_labels import LABELLED, labelled_words
from vlnbert.world.build import build_world
from vlnbert.world.objects import ObjectTable, build_object_table, find_sightings
from vlnbert.world.world import World

SHOWN = 3  # instructions that a note names
NEEDS = {  # beside the tasks themselves
    "graphs": "connectivity/<scan>_connectivity.json",
    "vocabulary": "vocab.txt of an uncased BERT",
    "augmented": "r2r/prevalent_aug.json",
    "boxes": "reverie/BBox/<scan>_<viewpoint>.json",
    "features": "image features in features/, as .hdf5 or 36-view .tsv",
    "object features": "object features in features/, as obj*.hdf5",
    "captions": "captions/<scan>.json",
    "observations": "observations/<scan>.json",
    "landmarks": "r2r/LAR2R_train.json",
}


# The contents of a part and, for misfits, notes.
Described = str | tuple[str, list[str]]


def describe_need(need: str) -> str:
    """Name the files of a kind of data: of a task, of a speaker's generated instructions, or as in `NEEDS`."""
    if need.endswith("_aug"):
        return f"{need.replace(' ', '/')}.json, as vlnbert augment speak writes it"
    return f"{need}/{need.upper()}_{{train,val_seen,val_unseen}}.json" if need in TASKS else NEEDS[need]


@dataclass(frozen=True)
class Part:
    """One kind of data in a folder."""

    need: str  # of the presets, that it meets
    path: Path
    holds: str  # in words; empty where it is damaged
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # misfits between files that are whole


def take_inventory(folder: DataFolder) -> list[Part]:
    """Read everything in a data folder. Faults are collected, never raised."""
    world, parts = _graphs(folder)
    if folder.vocabulary.exists():
        parts.append(_part("vocabulary", folder.vocabulary, partial(_word_pieces, folder.vocabulary)))
    if world is None:
        # Nothing else can be compared with the graphs.
        return parts
    objects, boxes = _boxes(world, folder.boxes)
    for task in TASKS:
        for split, path in TASKS[task].files(folder).items():
            need = "augmented" if path.name == AUGMENTED_FILE else f"{task} {split}"
            parts.append(_part(need, path, partial(_episodes, world, task, split, path, objects)))
    if folder.word_labels.exists():
        parts.append(_part("landmarks", folder.word_labels, partial(_word_labels, world, folder)))
    parts += boxes
    readers: dict[str, Callable[[World, Path], Described]]
    readers = {"captions": _captions, "observations": _observations, "plans": _plans}
    for need, read in readers.items():
        if (path := getattr(folder, need)).is_dir():
            parts.append(_part(need, path, partial(read, world, path)))
    for path in folder.feature_files():
        parts.append(_part("features", path, partial(_features, world, path)))
    for path in folder.object_feature_files():
        parts.append(_part("object features", path, partial(_object_features, world, path, objects)))
    return parts


def meets(need: str, parts: Iterable[Part]) -> bool:
    """Whether a need of a preset is met by undamaged parts."""
    whole = {part.need for part in parts if not part.faults}
    if need in TASKS:
        return {f"{need} {split}" for split in ("train", "val_seen", "val_unseen")} <= whole
    return need in whole


def _part(need: str, path: Path, read: Callable[[], Described]) -> Part:
    """A part as `read` describes it: its contents and, for misfits, notes; an error becomes its faults."""
    try:
        described = read()
        holds, notes = (described, []) if isinstance(described, str) else described
        return Part(need, path, holds, notes=tuple(notes))
    except VlnbertError as error:
        return Part(need, path, "", tuple(str(error).splitlines()))


def _graphs(folder: DataFolder) -> tuple[World | None, list[Part]]:
    graphs, faults = list[ScanGraph](), list[str]()
    try:
        for path in track(folder.graphs().values(), "graphs"):
            try:
                graphs.append(read_connectivity(path))
            except VlnbertError as error:
                faults += str(error).splitlines()
    except VlnbertError as error:
        return None, [Part("graphs", folder.connectivity, "", (str(error),))]
    if faults:
        # Other files that name those scans would be reported as faulty as well.
        faults.append(f"{folder.connectivity}: the rest of the folder was not compared with the graphs; fix them first")
        return None, [Part("graphs", folder.connectivity, "", tuple(faults))]
    world = build_world(graphs)
    holds = f"{len(graphs):,} scans, {len(world):,} viewpoints"
    return world, [Part("graphs", folder.connectivity, holds)]


def _word_pieces(path: Path) -> str:
    return f"{load_tokenizer(path).get_vocab_size():,} word pieces"


def _boxes(world: World, folder: Path) -> tuple[ObjectTable | None, list[Part]]:
    """The objects that viewpoints show, where the boxes are there and whole."""
    if not folder.is_dir():
        return None, []
    ranged = BoxRange("objects")

    def counted() -> Iterator[ViewpointObjects]:
        for place in read_box_folder(folder):
            for x, y, width, height in (box for item in place.objects for box in item.boxes):
                ranged.add(x, y, x + width, y + height)
            yield place

    try:
        objects = build_object_table(world, counted(), folder)
    except VlnbertError as error:
        return None, [Part("boxes", folder, "", tuple(str(error).splitlines()))]
    holds = f"{len(find_sightings(world, objects)):,} visible objects, {len(objects):,} sightings"
    return objects, [Part("boxes", folder, holds, notes=tuple(ranged.lines()))]


def _episodes(world: World, task: str, split: str, path: Path, objects: ObjectTable | None) -> Described:
    sightings = find_sightings(world, objects) if TASKS[task].sees_objects and objects is not None else None
    episodes = bind(path, TASKS[task].read(path), world, task=task, split=split, sightings=sightings)
    holds = f"{len(episodes):,} instructions" + ("" if episodes.scored else ", goals withheld")
    # Padding stays where it is.
    joined = world.joined(episodes.path[:, :-1], episodes.path[:, 1:])
    jumps = [episodes.ids[row] for row in (~joined).any(dim=1).nonzero().flatten().tolist()]
    problem = f"{len(jumps):,} paths step where no edge is, so that nobody can walk them"
    notes = [f"{problem}: {listed(jumps, SHOWN)}"] if jumps else []
    if sightings is not None and objects is not None and not (report := report_targets(objects, episodes)).complete:
        notes += report.lines()
    return holds, notes


def _word_labels(world: World, folder: DataFolder) -> tuple[str, list[str]]:
    labels = read_word_labels(folder.word_labels)
    holds = f"{len(labels):,} instructions with {sum(map(len, labels.values())):,} labelled viewpoints"
    try:
        episodes = load_episodes(folder, world, *task_and_split(LABELLED))
    except VlnbertError:
        # Its faults are those of that file.
        return holds, [f"was not held against {LABELLED}, which cannot be read"]
    return holds, labelled_words(episodes, labels, world)[1]


def _captions(world: World, folder: Path) -> tuple[str, list[str]]:
    count, ranged = 0, BoxRange("detections")
    for _, panorama in captions_of(world, folder):
        count += 1
        for view in panorama.views:
            for detection in view.detections:
                ranged.add(*detection.box)
    return f"{36 * count:,} captioned views", ranged.lines()


def _observations(world: World, folder: Path) -> str:
    count = sum(1 for _ in observations_of(world, folder))
    return f"{HEADINGS * len(LEVELS) * count:,} captions in {HEADINGS} directions at {len(LEVELS)} elevations"


def _plans(world: World, folder: Path) -> str:
    plans = [read_plan(path) for path in sorted(folder.glob("*.json")) if path.stem in world.scans]
    rooms, objects = (sum(len(getattr(plan, name)) for plan in plans) for name in ("rooms", "objects"))
    return f"{len(plans):,} houses with {rooms:,} rooms and {objects:,} objects, to look at"


def _features(world: World, path: Path) -> str:
    count, width = 0, 0
    for _, panorama in placed(world, read_features(path), path):
        count, width = count + 1, panorama.values.shape[1]
    return f"{count:,} panoramas, {width} wide"


def _object_features(world: World, path: Path, objects: ObjectTable | None) -> Described:
    featured, viewpoints, width = list[tuple[int, str]](), 0, 0
    for number, place in placed_objects(world, read_object_features(path), path):
        featured += [(number, id) for id in place.ids]
        viewpoints, width = viewpoints + 1, max(width, place.values.shape[1])
    holds = f"{len(featured):,} objects at {viewpoints:,} viewpoints, {width} wide"
    return holds if objects is None else (holds, find_fit(world, objects, featured).lines())
