"""Make the channels of a view's feature, and tell what they are."""

from pathlib import Path
from time import perf_counter
from typing import Any

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data, open_data
from vlnbert.data.features import open_view_channels
from vlnbert.data.spec import FeatureSpec
from vlnbert.errors import UsageError
from vlnbert.perception.channels import VIEW_CHANNELS, VIEW_GROUPS
from vlnbert.progress import quiet
from vlnbert.runtime import require_device
from vlnbert.weights.options import MINILM
from vlnbert.world.sights import facing_views

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
        known = ", ".join((*VIEW_GROUPS, *VIEW_CHANNELS))
        raise UsageError(f"'{views}' names no channels; known: {known}")
    opened = open_data(data, device=device)
    with quiet(not bar):
        begin = perf_counter()
        banks = open_view_channels(opened.world, opened.folder, spec)
        seconds = perf_counter() - begin
    return {
        "views": facing_views(opened.world).count,
        "channels": {name: bank.width for name, bank in banks.items()},
        "width": sum(bank.width for bank in banks.values()),
        "seconds": round(seconds, 3),
    }
