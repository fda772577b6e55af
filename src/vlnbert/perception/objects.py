"""Objects by what open data says of them: the name of each, and the caption of the view that shows it."""

import re
from dataclasses import dataclass
from json import dumps
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.perception.sentences import encoder_digest
from vlnbert.perception.texts import embedded
from vlnbert.weights.options import MINILM
from vlnbert.world.cache import Key
from vlnbert.world.objects import ObjectBank, ObjectTable
from vlnbert.world.sights import caption_files, index_captions_of
from vlnbert.world.world import World

VERSION = 1  # of embeddings, codes and readable names; a new one makes old caches unused


@dataclass(frozen=True)
class ObjectTextEmbeddings:
    """Embeddings of objects' names and captions, each text once, in half precision on the CPU."""

    names: Tensor  # [name, width]
    captions: Tensor  # [caption, width]
    name: Tensor  # [object] place in `names`
    caption: Tensor  # [object] place in `captions`


def open_object_names(
    world: World,
    objects: ObjectTable,
    captions: Path,
    encoder: str | Path = MINILM,
    device: torch.device | str = "cpu",
    max_objects: int | None = None,
) -> ObjectBank:
    """The bank of objects by name: the embedding of the name, then that of the caption of the view that shows it.

    Where a viewpoint shows more than `max_objects` objects, those with the largest boxes are kept. Texts are read once,
    on the device given; the bank is on the world's.
    """
    found = open_descriptions(world, objects, captions, encoder=encoder, device=device)
    (name, caption), code = torch.unique(torch.stack((found.name, found.caption)), dim=1, return_inverse=True)
    vectors = torch.cat((found.names[name], found.captions[caption]), dim=1)
    return ObjectBank.from_codebook(objects, vectors.to(world.device).float(), code, max_objects)


def open_descriptions(
    world: World,
    objects: ObjectTable,
    captions: Path,
    encoder: str | Path = MINILM,
    device: torch.device | str = "cpu",
) -> ObjectTextEmbeddings:
    """What the files say of each object, embedded once, then opened from the cache."""
    key = object_names_key(world, objects, captions, encoder)
    tensors = embedded(key, encoder, device, lambda: _index(world, objects, captions))
    return ObjectTextEmbeddings(
        tensors["names"], tensors["captions"], name=tensors["name"].long(), caption=tensors["caption"].long()
    )


def object_names_key(world: World, objects: ObjectTable, captions: Path, encoder: str | Path = MINILM) -> Key:
    """What the descriptions depend on; its `path` is where they are cached."""
    # The fingerprint covers which objects there are; the same ones may have other names, or show in other views.
    said = dumps((objects.names, objects.name.tolist(), objects.view.tolist()))
    settings = (f"version {VERSION}", encoder_digest(encoder), world.fingerprint(), objects.fingerprint(), said)
    return Key.of("object-names", caption_files(world, captions), *settings)


def readable_name(name: str) -> str:
    """An object's name as one would write it.

    '#' and '_' become spaces, slashes commas, and "/w" becomes "with".
    """
    # In REVERIE's 1,093 names '#' is the space within a phrase ("bowl#of#fruit", "sofa#chair"), never a border between
    # two things; '_' does not occur and is read alike. A slash of either kind adds another word for the thing or the
    # place where it is ("stand/table", "wall#/other#room"): a comma serves both. Alone, "/w" and "w/" mean "with"
    # ("box#/w#books"). Misspellings stay: word pieces bear them, and to mend them would be to guess.
    phrase = re.sub(r"[#_\s]+", " ", name)
    phrase = re.sub(r"(?<!\S)(?:/w|w/)(?!\S)", "with", phrase)
    return re.sub(r"\s*[/\\]+\s*", ", ", phrase).strip(" ,")


def _index(world: World, objects: ObjectTable, captions: Path) -> tuple[dict[str, list[str]], dict[str, Tensor]]:
    names, name = _index_names(objects)
    texts, caption = index_captions_of(world, captions, objects.viewpoint, objects.view)
    return {"names": names, "captions": texts}, {"name": name.int(), "caption": caption.int()}


def _index_names(objects: ObjectTable) -> tuple[list[str], Tensor]:
    """The distinct readable names, and the code of each object's."""
    phrases, codes = [readable_name(name) for name in objects.names], dict[str, int]()
    code = [codes.setdefault(phrases[name], len(codes)) for name in objects.name.tolist()]
    return list(codes), torch.tensor(code, dtype=torch.long)
