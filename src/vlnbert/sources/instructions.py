"""Instruction files: R2R, REVERIE (v1 and v2) and PREVALENT-style augmented data, all as one kind of record.

A record is one instruction, named as in result files: `<path_id>_<k>` in R2R, `<path_id>_<objId>_<k>` in REVERIE, and
`<path_id>` in augmented data. Also here: LAR2R's word labels, and the descriptions of augmented files.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import (
    FETCH_AGAIN,
    FORMAT,
    MEGABYTE,
    format_of,
    is_list_of,
    is_name,
    is_number,
    is_text,
    is_texts,
    opened,
    read_json,
    stream_json_list,
)
from vlnbert.sources.layout import ABOUT, MAKE_ONE
from vlnbert.sources.writing import write_json

LONGEST_PATH = 1000  # viewpoints; all paths are held at the length of the longest
LONGEST_TEXT = 1 << 16  # characters of an instruction
MOST_TEXTS = 1000  # instructions of one path
PAD = 0  # the token that fills an `instr_enc` up to its length

LABEL_FILE = "file of word labels"
GET_LABELS = (
    "get it with: vlnbert data fetch DIR --only landmarks; a generated house has none: train demo or demo-reverie there"
)
KINDS = ("action", "landmark")
PATH_NAME = "id"  # a key beside the viewpoints of a path's labels

NEWEST = 1  # format of a description of an augmented file
DESCRIPTION = "description of an augmented file"
DESCRIBE_AGAIN = "remove it, or tell the paths again: vlnbert augment speak"

WordLabels = Mapping[str, Mapping[str, tuple[int, ...]]]  # instruction id -> viewpoint -> places of words


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
        extra: User-defined fields by name. Numbers, and lists of equally many, become tensors [episode, ...]; all else
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
    return _read(path, "R2R file", partial(_r2r_item, goals=goals, extra=extra))


def read_reverie(path: Path) -> Iterator[EpisodeRecord]:
    """REVERIE's high-level instructions, version 1 or 2, with or without targets."""
    return _read(path, "REVERIE file", _reverie_item)


def read_augmented(path: Path) -> Iterator[EpisodeRecord]:
    """PREVALENT's augmented paths: one instruction each, tokenised already."""
    return _read(path, "augmented file", _augmented_item)


def read_paths(path: Path) -> Iterator[EpisodeRecord]:
    """The paths of a file in R2R's or REVERIE's form, one record each; their instructions are not read."""
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
    if not is_text(item.get("scan")):
        faults.add(place, "'scan' is missing or not a name", FETCH_AGAIN)
    path, heading = item.get("path"), item.get("heading")
    if not is_texts(path):
        faults.add(place, "'path' is not a list of viewpoints", "give at least the start")
    elif len(path) > LONGEST_PATH:
        faults.add(place, f"'path' has {len(path):,} viewpoints", f"give at most {LONGEST_PATH:,}")
    if not is_number(heading) or not abs(heading) < 1e6:
        faults.add(place, "'heading' is missing or not a number", "give the start heading in radians")
    if path is None or len(faults.found) > before:
        return []
    # Once for all of its instructions.
    item["path"] = tuple(path)
    records = list(parse(item, place, faults))
    return records if len(faults.found) == before else []


def _r2r_item(
    item: dict[str, Any], place: str, faults: Faults, goals: str | None, extra: Sequence[str]
) -> Iterator[EpisodeRecord]:
    for key in extra:
        if key not in item:
            faults.add(place, f"'{key}' is missing", "give it in every item, or do not ask for it")
    several: Any = () if goals is None else item.get(goals)
    if goals is not None and not is_texts(several):
        faults.add(place, f"'{goals}' is not a list of viewpoints", "name at least one")
        return
    values = {key: item[key] for key in extra if key in item}
    name = _name(item, "path_id", place, faults)
    for k, text in enumerate(_texts(item, place, faults)):
        yield _record(item, f"{name}_{k}", text, goals=tuple(several), extra=values)


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


def _augmented_item(item: dict[str, Any], place: str, faults: Faults) -> Iterator[EpisodeRecord]:
    name, tokens = _name(item, "path_id", place, faults), item.get("instr_enc")
    if not is_list_of(tokens, int) or min(tokens, default=0) < 0:
        faults.add(place, "'instr_enc' is not a list of token ids", FETCH_AGAIN)
        return
    for text in _texts(item, place, faults)[:1]:
        words = tuple(token for token in tokens if token != PAD)
        yield _record(item, name, text, object_id=_target(item, place, faults), tokens=words)


def _record(item: dict[str, Any], name: str, text: str, **fields: Any) -> EpisodeRecord:
    return EpisodeRecord(name, item["scan"], item["path"], float(item["heading"]), text, **fields)


def _reverie_name(item: dict[str, Any], place: str, faults: Faults) -> str:
    """REVERIE's name of a path and its target; version 2 leaves `id` out."""
    if "id" in item:
        return _name(item, "id", place, faults)
    return _name(item, "path_id", place, faults) + (f"_{item['objId']}" if item.get("objId") is not None else "")


def _name(item: dict[str, Any], field: str, place: str, faults: Faults) -> str:
    if not is_name(item.get(field)):
        faults.add(place, f"'{field}' is missing or not a name", FETCH_AGAIN)
    return str(item.get(field))


def _target(item: dict[str, Any], place: str, faults: Faults) -> str | None:
    target = item.get("objId")
    if target is not None and not is_name(target):
        faults.add(place, "'objId' is not a name", FETCH_AGAIN)
    return None if target is None else str(target)


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


class LabelledWords(NamedTuple):
    """The words that are due at a viewpoint, by their places in the instruction."""

    action: tuple[int, ...]
    landmark: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Places of both kinds, in order, each once."""
        return tuple(sorted({*self.action, *self.landmark}))

    def before(self, end: int) -> "LabelledWords":
        """Those of its words that lie before a place."""
        return LabelledWords(*(tuple(place for place in places if place < end) for places in self))


def require_word_labels(path: Path) -> Path:
    """The file, which must be there: a training checks that before it embeds features for minutes."""
    with opened(path, LABEL_FILE, GET_LABELS):
        return path


def read_word_labels(path: Path) -> WordLabels:
    """Read and check word labels, by instruction ids such as 4332_0, and in them by viewpoint."""
    labelled = read_labelled_words(path).items()
    return {name: {viewpoint: words.places for viewpoint, words in due.items()} for name, due in labelled}


def read_labelled_words(path: Path) -> Mapping[str, Mapping[str, LabelledWords]]:
    """Read LAR2R's word labels, `r2r/LAR2R_train.json`: the words of an instruction due at each viewpoint of its path.

    `{path_id: {viewpoint: {"0": {"action": [0, 1], "landmark": [2, 3]}}}}`: "0" is an instruction of the path, whose
    words are counted as `split_words` finds them. At the start they are the first words of the instruction, at the last
    viewpoint those about stopping; a turn that is labelled is made there (tests/golden/test_word_labels.py).
    """
    paths: Any = read_json(path, LABEL_FILE, GET_LABELS)
    faults, labelled = Faults(path), dict[str, dict[str, LabelledWords]]()
    for name, viewpoints in _table(paths, "", "paths", faults).items():
        for viewpoint, labels in _table(viewpoints, f"path {name}", "viewpoints", faults).items():
            if viewpoint == PATH_NAME:
                continue
            place = f"path {name} viewpoint {viewpoint}"
            for number, label in _table(labels, place, "instructions", faults).items():
                if not _is_label(label):
                    problem = f"has no lists of words by {' and '.join(KINDS)}, each from 0 to {LONGEST_TEXT - 1:,}"
                    faults.add(f"{place} instruction {number}", problem, FETCH_AGAIN)
                elif (words := LabelledWords(*(tuple(label.get(kind, ())) for kind in KINDS))).places:
                    labelled.setdefault(f"{name}_{number}", {})[viewpoint] = words
    if not labelled and not faults.found:
        faults.add("", "holds no labels", FETCH_AGAIN)
    faults.raise_if_any()
    return labelled


def _table(entry: Any, place: str, what: str, faults: Faults) -> Mapping[str, Any]:
    """A JSON object; an empty one, and a fault, where it is something else."""
    if isinstance(entry, dict):
        return entry
    faults.add(place, f"is no table of {what}", FETCH_AGAIN)
    return {}


def _is_label(label: Any) -> bool:
    words = label.values() if isinstance(label, dict) and label.keys() <= set(KINDS) else [None]
    return all(is_list_of(places, int) and all(0 <= place < LONGEST_TEXT for place in places) for places in words)


def split_words(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word of an instruction, in characters; a punctuation mark is a word."""
    return (match.span() for match in re.finditer(r"\w+|[^\w\s]", text))


@dataclass(frozen=True)
class Provenance:
    """Where the instructions of an augmented file come from."""

    speaker: str
    held_out: tuple[str, ...] | None  # train houses that the speaker had not seen; None where it is not known
    decoding: Mapping[str, Any]  # decoding settings, with the seed
    paths: int  # with generated instructions
    tellings: int  # generated for each path, at most
    instructions: int  # in the file
    # Navigator that could follow the instructions that were kept, if there was one.
    keep_followed: str | None
    bytes: int  # size of the file, so that another one of its name is noticed


def provenance_file(augmented: Path) -> Path:
    """The description of an augmented file: r2r/told_aug.about.json beside r2r/told_aug.json."""
    return augmented.with_suffix(ABOUT)


def write_provenance(augmented: Path, provenance: Provenance) -> None:
    """Write the description of an augmented file beside it."""
    write_json(provenance_file(augmented), {FORMAT: NEWEST, **asdict(provenance)}, indent=2)


def read_provenance(augmented: Path) -> Provenance | None:
    """Read and check the description of an augmented file; None where there is none."""
    path = provenance_file(augmented)
    if not path.exists():
        return None
    document = read_json(path, DESCRIPTION, damaged=DESCRIBE_AGAIN, most=MEGABYTE)
    if not isinstance(document, dict):
        raise DataError(path, f"is no {DESCRIPTION}", DESCRIBE_AGAIN)
    format_of(path, document, NEWEST)
    values: dict[str, Any] = {item.name: document.get(item.name) for item in fields(Provenance)}
    for name, value in values.items():
        if not _is_value(name, value):
            problem = f"says {value!r:.60} of '{name}'" if name in document else f"lacks '{name}'"
            raise DataError(path, problem, DESCRIBE_AGAIN)
    if values["bytes"] != (size := augmented.stat().st_size):
        problem = f"is about a file of {values['bytes']:,} bytes, and {augmented.name} has {size:,}"
        raise DataError(path, problem, DESCRIBE_AGAIN)
    held_out = values.pop("held_out")
    return Provenance(**values, held_out=None if held_out is None else tuple(held_out))


def _is_value(name: str, value: Any) -> bool:
    if value is None:
        return name in ("keep_followed", "held_out")
    if name == "decoding":
        return isinstance(value, dict)
    if name in ("speaker", "keep_followed"):
        return isinstance(value, str) and is_name(value)
    if name == "held_out":
        return isinstance(value, list) and all(isinstance(house, str) and is_name(house) for house in value)
    return type(value) is int and 0 <= value < 2**63
