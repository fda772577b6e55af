"""Instruction files: R2R, REVERIE (v1 and v2) and PREVALENT-style augmented data, all as one kind of record.

A record is one instruction of one path, named as every result file names it: `<path_id>_<k>` in R2R,
`<path_id>_<objId>_<k>` in REVERIE, and the `path_id` itself in augmented data. Paths that nobody described yet are read
as records without words.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from vlnbert.errors import Faults
from vlnbert.sources.checks import is_list_of, is_name, is_number, is_text, is_texts
from vlnbert.sources.files import FETCH_AGAIN
from vlnbert.sources.json_streams import stream_json_list
from vlnbert.sources.layout import MAKE_ONE

LONGEST_PATH = 1000  # viewpoints; all paths are held at the length of the longest
LONGEST_TEXT = 1 << 16  # characters of an instruction
MOST_TEXTS = 1000  # instructions of one path
PAD = 0  # the token that fills an `instr_enc` up to its length


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One instruction, the path it describes and the agent's heading at its start.

    Attributes:
        id: The instruction's name in result files, unique in its split.
        scan: The house.
        path: [hop] names of the viewpoints described; the start alone where the goal is withheld (test splits).
        heading: The agent's heading at the start, in radians, clockwise from +y.
        text: The instruction as written.
        object_id: REVERIE's target; None in other tasks.
        tokens: [token] ids of word pieces, of augmented data, which comes tokenised; None elsewhere.
        goals: [any] names of the viewpoints at any of which the episode may end; without any, it is the path's last. A
            path with more than its start ends at one of them.
        extra: Fields of one's own by name. Numbers, and lists of equally many, become tensors [episode, ...]; all else
            stays as it is.
    """

    id: str
    scan: str
    path: tuple[str, ...]
    heading: float
    text: str
    object_id: str | None = None
    tokens: tuple[int, ...] | None = None
    goals: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


def read_r2r(path: Path, goals: str | None = None, extra: Sequence[str] = ()) -> Iterator[EpisodeRecord]:
    """R2R's instructions in file order; the faults of the file are raised together at its end.

    Args:
        path: The file.
        goals: The key under which every item lists the viewpoints at any of which one may stop, if there is one.
        extra: Keys of every item whose values become each record's `extra`.
    """
    return _read(path, "R2R file", partial(_with_own, goals=goals, extra=extra) if goals or extra else _r2r_item)


def read_reverie(path: Path) -> Iterator[EpisodeRecord]:
    """REVERIE's high-level instructions, version 1 or 2, with or without targets."""
    return _read(path, "REVERIE file", _reverie_item)


def read_augmented(path: Path) -> Iterator[EpisodeRecord]:
    """PREVALENT's augmented paths: one instruction each, tokenised already."""
    return _read(path, "augmented file", _augmented_item)


def read_paths(path: Path) -> Iterator[EpisodeRecord]:
    """The paths of a file in R2R's or REVERIE's form, one record each; what it says of them is not looked at."""
    return _read(path, "file of paths", _path_item, kind="path")


def is_augmented(path: Path) -> bool:
    """Whether a file's name says that it holds augmented paths."""
    return path.stem.lower().endswith("_aug")


Parse = Callable[[dict[str, Any], str, Faults], Iterator[EpisodeRecord]]


def _read(path: Path, what: str, parse: Parse, kind: str = "instruction") -> Iterator[EpisodeRecord]:
    faults, seen = Faults(path), set[str]()
    for index, item in enumerate(stream_json_list(path, what, MAKE_ONE)):
        for record in _records(item, index, parse, faults):
            if record.id in seen:
                faults.add(f"{kind} {record.id}", "occurs twice", "keep one of the two")
            elif kind == "instruction" and not record.text.strip() and not record.tokens:
                faults.add(f"instruction {record.id}", "has no words", "write an instruction or remove the item")
            else:
                yield record
            seen.add(record.id)
    if not seen and not faults.found:
        remedy = FETCH_AGAIN if kind == "instruction" else "make some with: vlnbert augment paths"
        faults.add("", f"holds no {kind}s", remedy)
    faults.raise_if_any()


def _records(item: Any, index: int, parse: Parse, faults: Faults) -> list[EpisodeRecord]:
    """The instructions of an item; none where anything is wrong with it."""
    if not isinstance(item, dict):
        faults.add(f"item {index}", "is not an object", FETCH_AGAIN)
        return []
    name, before = item.get("id", item.get("path_id")), len(faults.found)
    place = f"item {index} (path {name if is_name(name) else '?'})"
    if not _check_path(item, place, faults):
        return []
    item["path"] = tuple(item["path"])  # once for all of its instructions
    records = list(parse(item, place, faults))
    return records if len(faults.found) == before else []


def _r2r_item(item: dict[str, Any], place: str, faults: Faults) -> Iterator[EpisodeRecord]:
    name = _name(item, "path_id", place, faults)
    for k, text in enumerate(_texts(item, place, faults)):
        yield _record(item, f"{name}_{k}", text)


def _with_own(
    item: dict[str, Any], place: str, faults: Faults, goals: str | None, extra: Sequence[str]
) -> Iterator[EpisodeRecord]:
    """R2R's, with several goals and fields of one's own."""
    for key in extra:
        if key not in item:
            faults.add(place, f"'{key}' is missing", "give it in every item, or do not ask for it")
    several: Any = () if goals is None else item.get(goals)
    if goals is not None and not is_texts(several):
        faults.add(place, f"'{goals}' is not a list of viewpoints", "name at least one")
        return
    values = {key: item[key] for key in extra if key in item}
    for record in _r2r_item(item, place, faults):
        yield replace(record, goals=tuple(several), extra=values)


def _reverie_item(item: dict[str, Any], place: str, faults: Faults) -> Iterator[EpisodeRecord]:
    target, name = _target(item, place, faults), _reverie_name(item, place, faults)
    if target is None and len(item["path"]) > 1:
        faults.add(place, "has a path but no 'objId'", "name the target object, or keep only the start of the path")
    for k, text in enumerate(_texts(item, place, faults)):
        yield _record(item, f"{name}_{k}", text, object_id=target)


def _path_item(item: dict[str, Any], place: str, faults: Faults) -> Iterator[EpisodeRecord]:
    if len(item["path"]) < 2:
        faults.add(place, "'path' has no step", "give two viewpoints or more")
    yield _record(item, _reverie_name(item, place, faults), "", object_id=_target(item, place, faults))


def _reverie_name(item: dict[str, Any], place: str, faults: Faults) -> str:
    """REVERIE's name of a path and its target; version 2 leaves `id` out."""
    if "id" in item:
        return _name(item, "id", place, faults)
    return _name(item, "path_id", place, faults) + (f"_{item['objId']}" if item.get("objId") is not None else "")


def _target(item: dict[str, Any], place: str, faults: Faults) -> str | None:
    target = item.get("objId")
    if target is not None and not is_name(target):
        faults.add(place, "'objId' is not a name", FETCH_AGAIN)
    return None if target is None else str(target)


def _augmented_item(item: dict[str, Any], place: str, faults: Faults) -> Iterator[EpisodeRecord]:
    name, tokens = _name(item, "path_id", place, faults), item.get("instr_enc")
    if not is_list_of(tokens, int) or min(tokens, default=0) < 0:
        faults.add(place, "'instr_enc' is not a list of token ids", FETCH_AGAIN)
        return
    for text in _texts(item, place, faults)[:1]:
        words = tuple(token for token in tokens if token != PAD)
        yield _record(item, name, text, object_id=_target(item, place, faults), tokens=words)


def _record(
    item: dict[str, Any], name: str, text: str, object_id: str | None = None, tokens: tuple[int, ...] | None = None
) -> EpisodeRecord:
    return EpisodeRecord(
        id=name,
        scan=item["scan"],
        path=item["path"],
        heading=float(item["heading"]),
        text=text,
        object_id=object_id,
        tokens=tokens,
    )


def _check_path(item: dict[str, Any], place: str, faults: Faults) -> bool:
    before, heading = len(faults.found), item.get("heading")
    if not is_text(item.get("scan")):
        faults.add(place, "'scan' is missing or not a name", FETCH_AGAIN)
    path = item.get("path")
    if not is_texts(path):
        faults.add(place, "'path' is not a list of viewpoints", "give at least the start")
    elif len(path) > LONGEST_PATH:
        faults.add(place, f"'path' has {len(path):,} viewpoints", f"give at most {LONGEST_PATH:,}")
    if not is_number(heading) or not abs(heading) < 1e6:
        faults.add(place, "'heading' is missing or not a number", "give the start heading in radians")
    return len(faults.found) == before


def _name(item: dict[str, Any], field: str, place: str, faults: Faults) -> str:
    if not is_name(item.get(field)):
        faults.add(place, f"'{field}' is missing or not a name", FETCH_AGAIN)
    return str(item.get(field))


def _texts(item: dict[str, Any], place: str, faults: Faults) -> list[str]:
    texts: list[str] = item.get("instructions", [])
    if not is_texts(texts):
        faults.add(place, "'instructions' is not a list of sentences", FETCH_AGAIN)
        return []
    if len(texts) > MOST_TEXTS or max(map(len, texts)) > LONGEST_TEXT:
        remedy = f"give at most {MOST_TEXTS:,} of at most {LONGEST_TEXT:,} characters"
        faults.add(place, f"has {len(texts):,} instructions of up to {max(map(len, texts)):,} characters", remedy)
        return []
    return texts
