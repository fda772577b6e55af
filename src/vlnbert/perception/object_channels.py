"""Objects without their names: the detections that overlap an object's box, and what was observed in its direction.

Detections and boxes are given in one frame, a view of 640 x 480 pixels, so they can be held against each other. In the
open data the edges of detections reach 640 and 480 and pile up there. And where the detector and REVERIE's annotators
agree on a word (928 chairs, beds, sinks and the like in 20 scans), the best of these detections overlaps the box by an
IoU of 0.78 in the median; were they given in the 1280 x 1024 of Matterport's own images, by 0.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from vlnbert.perception.observations import nearest_headings, observation_files, read_observations_of
from vlnbert.perception.sentences import encoder_digest
from vlnbert.perception.texts import TextCodes, embedded, mixed
from vlnbert.sources.annotations import HEADINGS, IMAGE_HEIGHT, IMAGE_WIDTH, Detection, box_files
from vlnbert.weights.options import MINILM
from vlnbert.world.cache import Key
from vlnbert.world.objects import AREA, Boxes, ObjectTable, boxes_by_view
from vlnbert.world.sights import caption_files, index_captions_of, placed, read_captions_of
from vlnbert.world.world import STEPS, World, view_elevation, view_heading

VERSION = 1  # of embeddings and codes; a new one makes old caches unused
LOG_USUAL_SIZE = 5.0  # of about 150 pixels
FOCAL = (IMAGE_HEIGHT / 2) / math.tan(math.radians(30))  # pixels; the vertical field of view is 60 degrees

Floats = NDArray[np.float64]
Indexed = tuple[dict[str, list[str]], dict[str, Tensor]]


def open_view_captions(
    world: World, objects: ObjectTable, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> Tensor:
    """[object, width] the caption of the view that shows each."""

    def index() -> Indexed:
        texts, code = index_captions_of(world, folder, objects.viewpoint, objects.view)
        return {"vectors": texts}, {"code": code.int()}

    key = _key("object-captions", caption_files(world, folder), world, objects, encoder)
    tensors = embedded(key, encoder, device, index)
    return tensors["vectors"].float()[tensors["code"].long()]


def open_overlaps(
    world: World, objects: ObjectTable, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> Tensor:
    """[object, classes + width] the detections that overlap the box of each, in its view.

    Each counts by its IoU with the box times its confidence: the most of each class, then the mean of the detections'
    own captions. Where nothing overlaps, all is zero.
    """
    key = _key("object-overlaps", caption_files(world, folder), world, objects, encoder)
    return _overlaps(key, encoder, device, lambda: _index_overlaps(world, objects, folder, _largest(objects)))


def open_overlaps_in_all_views(
    world: World,
    objects: ObjectTable,
    folder: Path,
    boxes: Path,
    encoder: str | Path = MINILM,
    device: torch.device | str = "cpu",
) -> Tensor:
    """[object, classes + width] the same over all views of the viewpoint that show each, by its box in each of them.

    A detector that misses an object in the view where it is largest may find it in another. Of the targets that REVERIE
    trains on, at the ends of their paths, the best IoU is 0.05 in the median there, and 0.26 over all views.
    """
    files = [*caption_files(world, folder), *box_files(boxes)]
    key = _key("object-overlaps-in-all-views", files, world, objects, encoder)

    def index() -> Indexed:
        return _index_overlaps(world, objects, folder, boxes_by_view(world, objects, boxes))

    return _overlaps(key, encoder, device, index)


def open_object_observations(
    world: World, objects: ObjectTable, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> Tensor:
    """[object, width] what was observed in the direction of each box's middle, at its view's elevation."""
    key = _key("object-observations", observation_files(world, folder), world, objects, encoder)
    before, share = nearest_headings(torch.rad2deg(box_heading(objects)))
    found = embedded(key, encoder, device, lambda: _index_observations(world, objects, folder, before=before))
    return mixed(found["vectors"], found["code"], torch.stack((1 - share, share), dim=1))


def box_shapes(objects: ObjectTable) -> Tensor:
    """[object, 5] the logarithms of each box's width and height, and how many sides, tops and bottoms cut it off.

    Boxes differ in size by factors, so their logarithms are given: a navigator is told the edges, but makes none of
    them. In a mirror a box has the same shape.
    """
    left, top, right, bottom, _ = objects.position.T
    pixels = torch.stack(((right - left) * IMAGE_WIDTH, (bottom - top) * IMAGE_HEIGHT), dim=1)
    cut = torch.stack(((left <= 0).float() + (right >= 1).float(), (top <= 0).float(), (bottom >= 1).float()), dim=1)
    return torch.cat((((pixels + 1).log() - LOG_USUAL_SIZE) / 2, cut / 2), dim=1)  # about as large as confidences are


def box_heading(objects: ObjectTable) -> Tensor:
    """[object] the heading of the middle of each box, radians."""
    return box_direction(objects)[0]


def box_direction(objects: ObjectTable) -> tuple[Tensor, Tensor]:
    """[object] the heading and the elevation of the middle of each box, radians."""
    left, top, right, bottom, _ = objects.position.double().T
    across = ((left + right) / 2 - 0.5) * IMAGE_WIDTH / FOCAL
    up = (0.5 - (top + bottom) / 2) * IMAGE_HEIGHT / FOCAL
    elevation = view_elevation(objects.view).double()
    ahead, above = elevation.cos() - up * elevation.sin(), elevation.sin() + up * elevation.cos()
    return view_heading(objects.view) + torch.atan2(across, ahead), torch.atan2(above, torch.hypot(across, ahead))


def overlap(box: Floats, others: Floats) -> Floats:
    """The intersection over the union of a box, left, top, right, bottom, and each of [other, 4]."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(high - low, 0).prod(axis=1)
    area, areas = (np.maximum(one[..., 2:] - one[..., :2], 0).prod(axis=-1) for one in (box, others))
    union = area + areas - shared
    ratio: Floats = np.divide(shared, union, out=np.zeros(len(others)), where=union > 0)
    return ratio


def _key(kind: str, files: list[Path], world: World, objects: ObjectTable, encoder: str | Path) -> Key:
    """Which objects there are, and where each is seen; not their names."""
    seen = hashlib.blake2b(objects.view.numpy().tobytes() + objects.position.numpy().tobytes(), digest_size=16)
    settings = (f"version {VERSION}", encoder_digest(encoder), world.fingerprint(), objects.fingerprint())
    return Key.of(kind, files, *settings, seen.hexdigest())


def _rows(objects: ObjectTable, viewpoint: int) -> Iterator[tuple[int, int]]:
    """The objects of a viewpoint, each with its view."""
    first = int(objects.first[viewpoint])
    for row in range(first, first + int(objects.count[viewpoint])):
        yield row, int(objects.view[row])


def _overlaps(key: Key, encoder: str | Path, device: torch.device | str, index: Callable[[], Indexed]) -> Tensor:
    found = embedded(key, encoder, device, index)
    code, weight, first = found["code"].long(), found["weight"], found["first"].long()
    texts = embedding_bag(code, found["vectors"].float(), first, mode="sum", per_sample_weights=weight)
    return torch.cat((found["classes"], texts), dim=1)


def _largest(objects: ObjectTable) -> list[Boxes]:
    """[object] its box in the one view that the table has it in."""
    positions = objects.position[:, :AREA].double().tolist()
    return [[(view, tuple(box))] for view, box in zip(objects.view.tolist(), positions, strict=True)]


def _index_overlaps(world: World, objects: ObjectTable, folder: Path, shown: list[Boxes]) -> Indexed:
    """`shown`: [object] the views to look into, and its box in each."""
    labels, found = set[str](), [list[tuple[float, Detection]]() for _ in range(len(objects))]
    for viewpoint, panorama in placed(world, read_captions_of(world, folder), folder, (objects.count > 0).numpy()):
        labels |= {item.label for view in panorama.views for item in view.detections}
        for row, _ in _rows(objects, viewpoint):
            for view, box in shown[row]:
                found[row] += _overlapping(box, panorama.views[view].detections)
    column = {label: place for place, label in enumerate(sorted(labels))}
    classes, codes = np.zeros((len(objects), len(column)), dtype=np.float32), TextCodes()
    for row, items in enumerate(found):
        for weight, item in items:
            place = row, column[item.label]
            classes[place] = max(classes[place], weight)
    count = torch.tensor([len(items) for items in found], dtype=torch.long)
    shares = [weight / sum(one for one, _ in items) for items in found for weight, _ in items]
    tables = {
        "classes": torch.from_numpy(classes),
        "code": torch.tensor(codes.of(item.caption for items in found for _, item in items), dtype=torch.int),
        "weight": torch.tensor(shares, dtype=torch.float32),
        "first": (count.cumsum(0) - count).int(),
    }
    return {"vectors": codes.texts}, tables


def _overlapping(box: tuple[float, ...], seen: Sequence[Detection]) -> list[tuple[float, Detection]]:
    """The detections of a view that overlap a box in it, given in shares of the view, and how much each counts."""
    if not seen:
        return []
    pixels = np.array(box) * (IMAGE_WIDTH, IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_HEIGHT)
    ratios = overlap(pixels, np.array([item.box for item in seen])).tolist()
    weighted = [(ratio * item.confidence, item) for ratio, item in zip(ratios, seen, strict=True)]
    return [(weight, item) for weight, item in weighted if weight > 0]


def _index_observations(world: World, objects: ObjectTable, folder: Path, before: Tensor) -> Indexed:
    codes, code = TextCodes(), np.zeros((len(objects), 2), dtype=np.int32)
    heading = before.tolist()
    for viewpoint, panorama in placed(world, read_observations_of(world, folder), folder, (objects.count > 0).numpy()):
        for row, view in _rows(objects, viewpoint):
            level, pair = view // STEPS, (heading[row], (heading[row] + 1) % HEADINGS)
            code[row] = codes.of(panorama.captions[one][level] for one in pair)
    return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}
