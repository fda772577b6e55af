"""Queries of visitors, checked field by field: a request becomes one of these, or an error in one line."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

MOST_CHARACTERS = 1000  # of a typed instruction
MOST_NAME = 200  # characters of an id or a name
MOST_FIELDS = 16  # of a query
SHOWN = 60  # characters of a wrong value
COME_BACK = "2"  # seconds after which to try again where there are too many


class RefusedError(Exception):
    """A request that is not served: an HTTP status and one line."""

    def __init__(self, status: int, line: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = status, line, dict(headers or {})


@dataclass(frozen=True)
class EpisodeQuery:
    """Let an agent walk an episode of a split."""

    agent: int
    split: str
    id: str


@dataclass(frozen=True)
class InstructionQuery:
    """Let an agent follow a typed instruction, from a viewpoint of a house."""

    agent: int
    task: str
    scan: str
    start: str
    heading: float
    text: str


Query = EpisodeQuery | InstructionQuery


def read_query(query: bytes, *needed: str, optional: Iterable[str] = ()) -> dict[str, str]:
    """The fields of a query string: each once, none unknown, none too long."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise RefusedError(400, "the query is damaged; write it as name=value&name=value") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError(400, "the query says something twice")
    _require_fields(found, needed, tuple(optional))
    for name, value in found.items():
        if len(value) > MOST_NAME and name != "text":
            raise RefusedError(400, f"{name} is longer than {MOST_NAME} characters")
    return found


def read_instruction(body: bytes, agents: int) -> InstructionQuery:
    """A typed instruction, from a JSON object."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RefusedError(400, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise RefusedError(400, f"the body is {_kind(found)}, where an object is expected")
    _require_fields(found, ("agent", "task", "scan", "start", "heading", "text"), ())
    return InstructionQuery(
        agent=agent_number(found["agent"], agents),
        task=_name(found, "task"),
        scan=_name(found, "scan"),
        start=_name(found, "start"),
        heading=heading_angle(found["heading"]),
        text=instruction_text(found["text"]),
    )


def instruction_text(text: object) -> str:
    """A typed instruction with single blanks; unpaired surrogates are refused, control characters are blanks."""
    if not isinstance(text, str):
        raise RefusedError(400, f"text is {_kind(text)}, where a string is expected")
    if len(text) > MOST_CHARACTERS:
        raise RefusedError(413, f"the instruction has {len(text):,} characters; {MOST_CHARACTERS:,} are read at most")
    plain = " ".join("".join(" " if ord(one) < 32 or 127 <= ord(one) < 160 else one for one in text).split())
    if not plain:
        raise RefusedError(400, "the instruction is empty; type some words")
    if any(0xD800 <= ord(one) <= 0xDFFF for one in plain):
        raise RefusedError(400, "the instruction holds half characters")
    return plain


def agent_number(value: object, agents: int) -> int:
    """The number of one of the agents; of a query it is text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 4:
        value = int(value)
    if type(value) is not int or not 0 <= value < agents:
        raise RefusedError(404, f"no agent {_shown(value)}; there are {agents}, counted from 0")
    return value


def heading_angle(value: object, kinds: tuple[type, ...] = (int, float)) -> float:
    """Radians, of any number of turns; of a query they are text."""
    try:
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError
        angle = float(value)  # type: ignore[arg-type]  # of the kinds above
        if not math.isfinite(angle) or abs(angle) > 1e3:
            raise ValueError
    except (ValueError, OverflowError):
        raise RefusedError(400, f"heading is {_shown(value)}, where radians are expected") from None
    return angle % (2 * math.pi)


def page_number(value: str) -> int:
    """A page, from 0."""
    if not (value.isascii() and value.isdigit() and len(value) < 8):
        raise RefusedError(400, f"page is {_shown(value)}, where a number from 0 is expected")
    return int(value)


def _require_fields(found: Mapping[str, Any], needed: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for name in needed:
        if name not in found:
            raise RefusedError(400, f"{name} is missing")
    for name in found:
        if name not in (*needed, *optional):
            raise RefusedError(400, f"no field {_shown(name)}; known: {', '.join((*needed, *optional)) or 'none'}")


def _name(found: Mapping[str, Any], field: str) -> str:
    value = found[field]
    if not isinstance(value, str) or len(value) > MOST_NAME:
        raise RefusedError(400, f"{field} is {_shown(value)}, where a name is expected")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    """A wrong value, short, and in characters that any terminal and page can show."""
    text = json.dumps(value)  # half characters come out spelt
    return text if len(text) <= SHOWN else _kind(value)
