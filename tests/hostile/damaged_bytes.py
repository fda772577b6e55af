"""Damage to any file: bits that flip, parts that go missing or come twice, and things that are no files at all."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

ByteDamage = Callable[[bytes, Random], bytes]
CONTROLS = b"\x00\x07\x08\x1b[2J\x1b]0;x\x07\r\x7f\x9b"
INFLATED = 4 << 20  # bytes that a padded file has


def flip_bits(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def replace_bytes(content: bytes, rng: Random) -> bytes:
    start, end = _slice(content, rng, 16)
    return content[:start] + rng.randbytes(end - start) + content[end:]


def truncate(content: bytes, rng: Random) -> bytes:
    return content[: rng.choice((rng.randrange(len(content) + 1), len(content) - 1, 1))]


def lose_the_beginning(content: bytes, rng: Random) -> bytes:
    return content[rng.randrange(1, len(content) + 1) :]


def delete_slice(content: bytes, rng: Random) -> bytes:
    start, end = _slice(content, rng)
    return content[:start] + content[end:]


def repeat_slice(content: bytes, rng: Random) -> bytes:
    start, end = _slice(content, rng)
    return content[:end] + content[start:end] * rng.choice((1, 1, 3)) + content[end:]


def swap_chunks(content: bytes, rng: Random) -> bytes:
    size = max(1, rng.choice((1, 8, 64, 512, len(content) // 3)))
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    one, other = rng.randrange(len(chunks)), rng.randrange(len(chunks))
    chunks[one], chunks[other] = chunks[other], chunks[one]
    return b"".join(chunks)


def zero_block(content: bytes, rng: Random) -> bytes:
    """As a disk gives back what it never wrote."""
    start, end = _slice(content, rng, 4096)
    return content[:start] + bytes(end - start) + content[end:]


def insert_controls(content: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + CONTROLS + content[place:]


def insert_noise(content: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 4, 100))) + content[place:]


def append(content: bytes, rng: Random) -> bytes:
    return content + rng.choice((b"\x00", b"\n", b"}", content, rng.randbytes(64)))


def inflate(content: bytes, rng: Random) -> bytes:
    """Padded with much of one byte, in the middle or at an end."""
    place = rng.choice((0, rng.randrange(len(content) + 1), len(content)))
    return content[:place] + rng.choice((b" ", b"\x00", b"[", b"9", b"a")) * INFLATED + content[place:]


def empty(content: bytes, rng: Random) -> bytes:
    return b""


def noise(content: bytes, rng: Random) -> bytes:
    return rng.randbytes(rng.choice((1, 16, 1000, len(content) or 1)))


def another_text(content: bytes, rng: Random) -> bytes:
    """What a server sends in place of a file, or another program writes."""
    texts = (
        b"<html><body>404 Not Found</body></html>",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"null",
        b"{}",
    )
    return rng.choice((*texts, b"[]", b'""', b"0", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf" + content))


BYTE_DAMAGE: tuple[ByteDamage, ...] = (
    *(flip_bits, flip_bits, flip_bits, replace_bytes, truncate, truncate, lose_the_beginning, delete_slice),
    *(repeat_slice, swap_chunks, zero_block, insert_controls, insert_noise, append, inflate, empty, noise),
    another_text,
)


def put_no_file(path: Path, rng: Random) -> str:
    """Something that is no plain file in a file's place, which is free."""
    kind = rng.choice(("folder", "fifo", "dangling link", "loop", "/dev/zero", "/dev/null", "socket", "gone"))
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one, suppress(OSError):  # a path may be too long for one
            one.bind(str(path))
    elif kind != "gone":
        path.symlink_to({"dangling link": "nowhere", "loop": path.name}.get(kind, kind))
    return kind


def _slice(content: bytes, rng: Random, most: int | None = None) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.randrange(1, (most or len(content) + 1) + 1))
