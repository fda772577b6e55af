"""One mutation by its seed: which damage is done to a file of some kind, in place."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path
from random import Random
from typing import Literal

from tests.hostile.damaged_bytes import BYTE_DAMAGE, put_no_file
from tests.hostile.damaged_json import damaged_json
from tests.hostile.damaged_tensors import damaged_hdf5, damaged_safetensors, damaged_torch

Kind = Literal["json", "lines", "text", "safetensors", "hdf5", "torch", "bytes", "json.gz", "tar.gz", "name"]
NO_FILES = 0.03  # of all mutations put something else in a file's place


def mutate(path: Path, kind: Kind, rng: Random) -> str:
    """Damage a file; what was done, in a word or two. Damage that knows the format leaves it whole by its own rules."""
    if kind != "name" and rng.random() < NO_FILES:
        path.unlink()
        return f"no file: {put_no_file(path, rng)}"
    content = path.read_bytes()
    if kind == "bytes" or rng.random() < 0.4:
        damage = rng.choice(BYTE_DAMAGE)
        path.write_bytes(damage(content, rng))
        return f"bytes: {damage.__name__}"
    if kind == "hdf5":
        return f"hdf5: {damaged_hdf5(path, rng)}"
    ways = {
        "json": damaged_json,
        "lines": damaged_json_lines,
        "text": damaged_lines,
        "safetensors": damaged_safetensors,
        "torch": damaged_torch,
        "json.gz": damaged_packed_json,
        "tar.gz": damaged_archive,
        "name": damaged_name,
    }
    how, changed = ways[kind](content, rng)
    path.write_bytes(changed)
    return f"{kind}: {how}"


def remove(path: Path) -> None:
    """Whatever a mutation left in a file's place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def damaged_json_lines(content: bytes, rng: Random) -> tuple[str, bytes]:
    """One of the lines is damaged as JSON is."""
    lines = content.splitlines()
    number = rng.randrange(len(lines))
    how, lines[number] = damaged_json(lines[number], rng)
    return how, b"\n".join(lines) + b"\n"


def damaged_lines(content: bytes, rng: Random) -> tuple[str, bytes]:
    """Lines, and fields between tabs, that are gone, twice, exchanged, endless or something else."""
    lines = content.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    fields = lines[one].split(b"\t")
    field = rng.randrange(len(fields))
    how = rng.choice(
        ("lose", "repeat", "swap", "empty", "endless", "odd", "field lost", "field odd", "carriage returns")
    )
    if how == "lose":
        del lines[one]
    elif how == "repeat":
        lines[one:one] = [lines[one]] * rng.choice((1, 1000))
    elif how == "swap":
        lines[one], lines[other] = lines[other], lines[one]
    elif how == "empty":
        lines[one] = b""
    elif how == "endless":
        lines[one] += lines[one][:3] * (1 << 20)
    elif how == "odd":
        lines[one] = rng.choice((b"\x1b[2J", b"\x00", b"\xff\xff", b"[PAD]", b"##", "é".encode(), b" "))
    elif how == "field lost":
        del fields[field]
        lines[one] = b"\t".join(fields)
    elif how == "field odd":
        fields[field] = rng.choice((b"", b"-1", b"\x1b[2J", b"nan", fields[field][:-4], b"AAAA" * 36, b"////" * 36))
        lines[one] = b"\t".join(fields)
    else:
        return how, content.replace(b"\n", b"\r\n")
    return how, b"\n".join(lines)


def damaged_packed_json(content: bytes, rng: Random) -> tuple[str, bytes]:
    text = gzip.decompress(content)
    if rng.random() < 0.1:
        return "inflated", gzip.compress(text + b" " * (200 << 20), compresslevel=1)
    how, changed = damaged_json(text, rng)
    return how, gzip.compress(changed, mtime=0)


def damaged_archive(content: bytes, rng: Random) -> tuple[str, bytes]:
    """The members of an archive under other names, of other kinds, or of other sizes than they say."""
    how = rng.choice(("name", "kind", "content", "order", "size", "unpacked bytes", "inflated"))
    plain = bytearray(gzip.decompress(content))
    if how == "unpacked bytes":
        return how, gzip.compress(rng.choice(BYTE_DAMAGE)(bytes(plain), rng), compresslevel=1, mtime=0)
    if how == "inflated":
        return how, gzip.compress(bytes(plain[:-1024]) + bytes(100 << 20), compresslevel=1, mtime=0)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        members = [(member, tar.extractfile(member) if member.isreg() else None) for member in tar]
        held = [(member, file.read() if file else b"") for member, file in members]
    number = rng.randrange(len(held))
    member, data = held[number]
    if how == "name":
        member.name = rng.choice(
            ("../../x", "/etc/x", "a" * 100_000, "\x1b[2J", "", member.name * 2, f"{member.name}\udcff")
        )
    elif how == "kind":
        member.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"?", b"x"))
    elif how == "content":
        held[number] = member, rng.choice((data[:-1], data + b"x", b"", rng.choice(BYTE_DAMAGE)(data or b"x", rng)))
    elif how == "order":
        held.reverse()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for one, content in held:
            one.size, one.pax_headers = len(content), {}
            tar.addfile(one, io.BytesIO(content))
    plain = bytearray(out.getvalue())
    if how == "size":
        plain[124:136] = rng.choice((b"77777777777\x00", b"-0000000001\x00", b"\xff" * 12, b"00000000001\x00"))
    return how, gzip.compress(bytes(plain), compresslevel=1, mtime=0)


def damaged_name(content: bytes, rng: Random) -> tuple[str, bytes]:
    """A name that somebody gives, of a plugin for instance, with something wrong with it."""
    name, at = content.decode(), rng.randrange(len(content))
    odd = (
        "",
        ".",
        "..",
        "a" * 5000,
        "\x1b[2J",
        "no.such.module",
        "/dev/zero",
        "/",
        "-",
        f"{name}.py",
        "é",
        json.dumps(name),
    )
    changed = name[:at] + rng.choice("\t .:/x\\") + name[at + 1 :]
    return "name", rng.choice((*odd, changed, changed, name.upper(), name * 3)).encode()
