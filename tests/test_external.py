"""The guard around code that is not ours: what it raises, what it gives and what it writes into."""

from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from vlnbert.errors import DataError, UsageError
from vlnbert.external import ExternalCall, failure, guarded, is_plain, kind_of, lent, reason

HERE = __file__


@dataclass(frozen=True)
class Held:
    """What is handed over."""

    place: Tensor
    words: tuple[str, ...] = ()
    inner: "Held | None" = None


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


@dataclass(frozen=True)
class Frozen(Exception):
    why: str

    def __str__(self) -> str:
        return self.why


class Odd(BaseException): ...


class Stop(KeyboardInterrupt): ...


def raises(error: BaseException) -> None:
    raise error


def called(error: BaseException) -> None:
    with ExternalCall("the part"):
        raises(error)


def line_of(function: Callable[..., object]) -> int:
    return function.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "error", [ValueError("no\nsecond line"), RuntimeError("no"), OSError("no"), Frozen("no"), MemoryError("no")]
)
def test_ordinary_errors_stay_what_they_are_and_are_known(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        called(error)
    assert caught.value is error
    told = f"the part failed in line {line_of(raises)} of {HERE} ({type(error).__name__}: no); fix it"
    assert failure(error) == told
    with pytest.raises(type(error)), ExternalCall("another part"):
        raise error
    assert failure(error) == told, "who is nearest is named"
    assert failure(ValueError("ours")) is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (Odd("no"), "Odd: no"),
        (GeneratorExit(), "GeneratorExit: "),
        (StopIteration(), "StopIteration: "),
        (Stop(), "Stop: "),
        (Mute(), "Mute, which cannot be told"),
    ],
)
def test_what_would_end_the_process_or_cannot_be_told_is_a_line(error: BaseException, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        called(error)
    assert str(caught.value) == f"the part failed in line {line_of(raises)} of {HERE} ({told}); fix it"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("no"), DataError("file", "is odd", "fix it")])
def test_ctrl_c_and_our_own_words_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        called(error)
    assert caught.value is error
    assert failure(error) is None


def test_the_line_is_that_of_the_file_that_was_called() -> None:
    """Neither one of torch, through which a module is called, nor one of what the file calls in turn."""

    class Part(nn.Module):
        def forward(self) -> Tensor:
            return torch.nn.functional.linear(torch.ones(2), torch.ones(2, 3))

    with pytest.raises(RuntimeError) as caught, ExternalCall("the part"):
        Part()()
    assert (failure(caught.value) or "").startswith(f"the part failed in line {line_of(Part.forward)} of {HERE} (")
    with pytest.raises(TypeError) as written_in_c, ExternalCall("the part"):
        partial(int, 1, 2, 3, 4)()
    assert (failure(written_in_c.value) or "").startswith("the part failed")


def test_what_is_said_is_one_line_of_a_bounded_length() -> None:
    assert reason(ValueError("\n\nsecond")) == "ValueError: "
    assert len(reason(ValueError("x" * 10**6))) == 200


def test_an_iterator_is_guarded_to_its_end() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise SystemExit(0)

    found = guarded("the reader", items)()
    assert next(found) == 1
    with pytest.raises(UsageError, match=r"^the reader failed in line \d+ of .* \(SystemExit: 0\); fix it$"):
        next(found)
    assert list(guarded("the reader", lambda: iter([1, 2]))()) == [1, 2]
    assert guarded("the reader", lambda: [1, 2])() == [1, 2]


WRITES: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda tensor: tensor.add_(1),
    "by index": lambda tensor: tensor.__setitem__(0, 7),
    "through a view": lambda tensor: tensor.view(-1)[1:].zero_(),
    "through what is detached": lambda tensor: tensor.detach().fill_(3),
}


@pytest.mark.parametrize("way", WRITES)
def test_writing_into_what_is_kept_is_noticed(way: str) -> None:
    held, alone = Held(torch.arange(3)), torch.arange(4)
    words = "^the part wrote into tensors that it was only lent; work on a copy"
    with pytest.raises(UsageError, match=words), ExternalCall("the part", held):
        WRITES[way](held.place)
    with pytest.raises(UsageError, match="wrote into"), ExternalCall("the part", alone):
        WRITES[way](alone)
    with ExternalCall("the part", held, alone):
        held.place.clone().add_(1)


def test_what_is_lent_cannot_be_damaged() -> None:
    held = Held(torch.arange(3), ("a",), Held(torch.arange(2)))
    copy = lent(held)
    copy.place.numpy()[:] = 7
    assert copy.inner is not None
    copy.inner.place.data.fill_(7)
    assert held.inner is not None
    assert (held.place.tolist(), held.inner.place.tolist(), copy.words) == ([0, 1, 2], [0, 1], ("a",))
    with pytest.raises(FrozenInstanceError):
        copy.place = held.place  # type: ignore[misc]


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.zeros(2, 3).to_sparse(), "a sparse_coo tensor"),
        (torch.zeros(2, 3, device="meta"), "a meta tensor"),
        (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged), "a nested tensor"),
    ],
)
def test_tensors_that_are_no_plain_numbers_are_told_apart(tensor: Tensor, kind: str) -> None:
    assert not is_plain(tensor)
    assert kind_of(tensor) == kind
    assert is_plain(torch.zeros(2, 3).T)
    assert (kind_of(torch.zeros(2, 3)), kind_of(3)) == ("float32 [2, 3] on cpu", "a int")


def test_tensors_made_for_inference_are_kept_unwatched() -> None:
    with torch.inference_mode():
        held = Held(torch.arange(3))
        with ExternalCall("the part", held):
            held.place.sum()


def test_nothing_waits_for_the_device(no_waiting: Callable[[], object]) -> None:
    held = Held(torch.arange(3), inner=Held(torch.ones(2)))
    with no_waiting(), ExternalCall("the part", held):  # type: ignore[attr-defined]
        lent(held)
