"""What counts as a number, a text or a name in a JSON file: true is no number, and neither is NaN."""

from typing import Any, TypeGuard

LARGEST = 1e18  # of a number; single precision holds its square
LONGEST_NAME = 1000  # characters


def is_number(value: Any) -> TypeGuard[int | float]:
    """A finite number that single precision can hold."""
    return type(value) in (int, float) and -LARGEST < value < LARGEST


def is_text(value: Any) -> TypeGuard[str]:
    """Text that can be written down: JSON can also spell halves of characters."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def is_name(value: Any) -> TypeGuard[int | str]:
    """What may name a path or an object: a whole number or text that is not long."""
    return type(value) is int or (is_text(value) and len(value) <= LONGEST_NAME)


def is_list_of(value: Any, *kinds: type) -> TypeGuard[list[Any]]:
    """A list of nothing but these types, exactly; quick on long lists."""
    return isinstance(value, list) and set(map(type, value)).issubset(kinds)


def is_numbers(value: Any, count: int) -> bool:
    """A list of `count` numbers."""
    return isinstance(value, list) and len(value) == count and all(map(is_number, value))


def is_texts(value: Any) -> TypeGuard[list[str]]:
    """A list of texts, at least one."""
    return isinstance(value, list) and bool(value) and all(map(is_text, value))
