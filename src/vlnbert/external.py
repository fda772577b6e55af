"""Calls into external code: plugins and user-defined objects. Any failure in it ends in one line.

    with ExternalCall("the reward 'mine'", world):
        earned = reward(lent(rollout), lent(batch), world)

Its exceptions stay what they are, so that they can be caught, and `failure` says where they come from. One that would
end the process, such as that of `sys.exit()`, or cannot be printed becomes a `UsageError`. Ctrl-C stays Ctrl-C.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, TypeVar

from vlnbert.errors import UsageError, VlnbertError

OURS = "vlnbert."  # how the names of our modules begin
LONGEST_REASON = 200  # characters of what an exception says
_FAILURE = "_vlnbert_failure"  # the attribute of an exception that keeps the line
_END = object()  # behind the last item of an iterator

Value = TypeVar("Value")


class ExternalCall:
    """A block that calls external code.

    Nothing in it waits for the device, and it may be part of a recorded graph.

    Args:
        what: The thing that is called, such as "the reward 'mine'".
        kept: Tensors that the call must not write into, and objects that hold some, such as the world.
    """

    def __init__(self, what: str, *kept: object) -> None:
        self.what, self.kept = what, kept

    def __enter__(self) -> None:
        parts = [part for one in self.kept for part in ([one] if _is_tensor(one) else vars(one).values())]
        self.before = [(part, _version(part)) for part in parts if _is_tensor(part)]

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            if any(_version(part) != version for part, version in self.before):
                problem = f"{self.what} wrote into tensors that it was only lent"
                raise UsageError(f"{problem}; work on a copy (.clone())")
            return
        if is_ours_to_raise(error):
            return
        line = f"{self.what} failed{_where(trace)} ({reason(error)}); fix it"
        ends = not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration)
        if ends or not _printable(error):
            raise UsageError(line) from error
        # An error with a line was already named further in.
        if failure(error) is None:
            # Works also where the class refuses attributes.
            object.__setattr__(error, _FAILURE, line)


def guarded(what: str, function: Callable[..., Value], *kept: object) -> Callable[..., Value]:
    """An external function, each call of which is an `ExternalCall`; so is each step of an iterator that it returns."""

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        with ExternalCall(what, *kept):
            answer = function(*values, **named)
        return _steps(what, answer) if isinstance(answer, Iterator) else answer

    return call


def _steps(what: str, answer: Iterator[Any]) -> Iterator[Any]:
    while True:
        with ExternalCall(what):
            item = next(answer, _END)
        if item is _END:
            return
        yield item


def is_ours(thing: object) -> bool:
    """Whether a function, a method or a class was written by us."""
    return str(getattr(thing, "__module__", "")).startswith(OURS)


def lent(value: Value, *shared: object) -> Value:
    """Copy a dataclass with its tensors, so that external code cannot damage them; `shared` parts are not copied."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    copied = {
        name: part.clone() if _is_tensor(part) else lent(part, *shared)
        for name, part in parts.items()
        if not any(part is one for one in shared)
    }
    return replace(value, **copied)


def is_plain(tensor: Any) -> bool:
    """Whether a tensor is neither sparse nor nested, nor on the meta device, where it has no numbers."""
    return str(tensor.layout) == "torch.strided" and not tensor.is_nested and not tensor.is_meta


def kind_of(value: Any) -> str:
    """The type, shape and device of an unexpected value, in words."""
    if not _is_tensor(value):
        return f"a {type(value).__name__}"
    if not is_plain(value):
        kind = "nested" if value.is_nested else "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
        return f"a {kind} tensor"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"


def is_ours_to_raise(error: BaseException) -> bool:
    """Whether an error passes as it is: Ctrl-C, and errors of ours that can be printed."""
    interrupted = isinstance(error, KeyboardInterrupt) and (type(error) is KeyboardInterrupt or is_ours(type(error)))
    return interrupted or (isinstance(error, VlnbertError) and _printable(error))


def failure(error: BaseException) -> str | None:
    """The line on an exception of external code: what failed, where and how; None for other exceptions."""
    return getattr(error, _FAILURE, None)


def reason(error: BaseException) -> str:
    """The type and the text of an exception, in a line."""
    text = f"{type(error).__name__}: {error}" if _printable(error) else f"{type(error).__name__}, which cannot be told"
    return text.splitlines()[0][:LONGEST_REASON]


def _printable(error: BaseException) -> bool:
    try:
        return isinstance(f"{error}", str)
    except BaseException:  # of somebody's __str__, which may do anything
        return False


def _where(trace: TracebackType | None) -> str:
    """The last line of the file that was called; nothing where what was called is not written in Python."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("vlnbert", "torch"))
    between = tuple(str(Path(file).parent) + os.sep for file in files if file)
    called = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace)]
    called = [(file, line) for file, line in called if not file.startswith(between)]
    lines = [line for file, line in called if file == called[0][0]]
    return f" in line {lines[-1]} of {called[0][0]}" if lines else ""


def _is_tensor(value: object) -> bool:
    """Recognise a tensor by its methods: importing torch would take too long here."""
    return hasattr(value, "is_inference") and hasattr(value, "clone")


def _version(tensor: Any) -> int:
    """How often torch has counted that a tensor was written into; it does not count for those made for inference."""
    return 0 if tensor.is_inference() else tensor._version
