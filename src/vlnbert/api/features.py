"""Make features of views and objects from open data, once, and tell what they are."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError
from vlnbert.features.objects import ObjectSource
from vlnbert.features.opening import OBJECT_NAMES, VIEW_NAMES
from vlnbert.features.spec import WITHOUT_NAMES, FeatureSpec
from vlnbert.features.views import ViewSource, open_labels
from vlnbert.progress import quiet
from vlnbert.runtime import require_device
from vlnbert.tasks.episodes import bind
from vlnbert.tasks.targets import TargetReport, report_targets
from vlnbert.tasks.task import REVERIE, TASKS
from vlnbert.weights.options import MINILM
from vlnbert.world.objects import find_sightings

USUAL = "captions,observations"


@checked()
def view_features(
    data: Data | str | Path,
    views: str = USUAL,
    encoder: str = MINILM,
    *,
    device: str = "cpu",
    bar: bool = True,
) -> dict[str, Any]:
    """Make channels of the views' feature, once; from then on they open from the cache.

    Gives back views that face a neighbour, the width of each of the channels, in their order, width of all together,
    and seconds.

    Args:
        data: The data folder, or what `vln.open_data` gave.
        views: Channels with commas between them, as the setting features.views has them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder or a hub name.
        device: Where it reads, such as cpu or cuda.
        bar: Show progress.
    """
    require_device(device)
    spec = FeatureSpec(views=views, encoder=encoder)
    if not spec.view_channels:
        raise UsageError(f"'{views}' names no channels; known: {', '.join(VIEW_NAMES)}")
    opened = open_data(data, device=device)
    source = ViewSource(opened.world, opened.folder, spec)
    with quiet(not bar):
        begin = perf_counter()
        widths = {channel.name: channel.open(source).width for channel in spec.of_views}
        seconds = perf_counter() - begin
    width = sum(widths.values())
    return {"views": source.views.count, "channels": widths, "width": width, "seconds": round(seconds, 3)}


@checked("device")
def caption_features(
    data: Data | str | Path, encoder: str = MINILM, *, device: str = "cpu", bar: bool = True
) -> dict[str, Any]:
    """Turn the captions and detections of views into features, once; from then on they open from the cache.

    Gives back views that face a neighbour, distinct captions, caption_width, classes, width of both together, seconds,
    and cache, the file (None where none could be written).

    Args:
        data: The data folder, or what `vln.open_data` gave.
        encoder: The BERT that reads them: a folder or a hub name.
        device: Where it reads, such as cpu or cuda.
        bar: Show progress.
    """
    require_device(device)
    opened = open_data(data, device=device)
    source = ViewSource(opened.world, opened.folder, FeatureSpec(encoder=str(encoder)))
    with quiet(not bar):
        begin = perf_counter()
        captions, (labels, classes) = source.captions, open_labels(source.world, opened.folder.captions)
        seconds = perf_counter() - begin
    cache = source.captions_key.path
    return {
        "views": source.views.count,
        "captions": len(captions.table) - 1,  # row 0 stands for no view
        "caption_width": captions.width,
        "classes": len(classes),
        "width": captions.width + labels.width,
        "seconds": round(seconds, 3),
        "cache": str(cache) if cache.exists() else None,
    }


@checked("device")
def object_features(
    data: Data | str | Path,
    objects: str = WITHOUT_NAMES,
    encoder: str = MINILM,
    *,
    device: str = "cpu",
    bar: bool = True,
) -> dict[str, Any]:
    """Make channels of the objects' feature, once; from then on they open from the cache.

    Gives back objects shown, the width of each of the channels, in their order, width of all together, seconds, and
    targets: what becomes of those of each REVERIE split.

    Args:
        data: The data folder, or what `vln.open_data` gave.
        objects: Channels with commas between them, as the setting features.objects has them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder or a hub name.
        device: Where it reads, such as cpu or cuda.
        bar: Show progress.
    """
    require_device(device)
    spec = FeatureSpec(objects=objects, encoder=encoder)
    if not spec.object_channels:
        raise UsageError(f"'{objects}' names no channels; known: {', '.join(OBJECT_NAMES)}")
    opened = open_data(data)
    source = ObjectSource(opened.world.to(device), opened.folder, spec, objects=opened.objects)
    with quiet(not bar):
        begin = perf_counter()
        widths = {channel.name: channel.open(source).shape[1] for channel in spec.of_objects}
        seconds = perf_counter() - begin
    return {
        "objects": len(opened.objects),
        "channels": widths,
        "width": sum(widths.values()),
        "seconds": round(seconds, 3),
        "targets": {split: asdict(report) for split, report in target_reports(opened).items()},
    }


def target_reports(data: Data) -> dict[str, TargetReport]:
    """What becomes of the targets of each REVERIE split that is there."""
    sightings, reports, task = find_sightings(data.world, data.objects), {}, TASKS[REVERIE.name]
    for split, path in task.files(data.folder).items():
        episodes = bind(path, task.read(path), data.world, task=task.name, split=split, sightings=sightings)
        reports[split] = report_targets(data.objects, episodes)
    return reports
