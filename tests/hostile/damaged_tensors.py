"""Damage to files of tensors that leaves them whole by their own rules: safetensors, HDF5, torch's archives."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch

from tests.hostile.damaged_json import JSON_DAMAGE

MARK = "VLNBERT_HOSTILE_MARK"  # the file that code hidden in a checkpoint would make
HUGE = 1 << 40
FAR = 1 << 31  # elements that are declared and not there
ODD_VALUES = (float("nan"), float("inf"), -float("inf"), 1e38, 0.0)


def damaged_safetensors(content: bytes, rng: Random) -> tuple[str, bytes]:
    """Its header is JSON behind a length; the values of its tensors follow."""
    size = int.from_bytes(content[:8], "little")
    header, values = json.loads(content[8 : 8 + size]), content[8 + size :]
    how = rng.choice(("header", "dtype", "shape", "offsets", "values", "rename", "lose", "length", "metadata", "swap"))
    names = [name for name in header if name != "__metadata__"]
    entry = header[rng.choice(names)]
    start, end = entry["data_offsets"]
    if how == "header":
        header = rng.choice(JSON_DAMAGE)(header, rng)
    elif how == "dtype":
        entry["dtype"] = rng.choice(("I32", "F16", "BF16", "F64", "I64", "BOOL", "U8", "F8_E4M3", "X", 4))
    elif how == "shape":
        entry["shape"] = rng.choice((entry["shape"][::-1], [*entry["shape"], 1], [HUGE, HUGE], [-1], [0], []))
    elif how == "offsets":
        entry["data_offsets"] = rng.choice(
            ([0, end - start], [end, start], [start, 2**63], [-4, end], [start + 4, end])
        )
    elif how == "values":
        count = rng.choice((4, end - start))
        values = values[:start] + np.float32(rng.choice(ODD_VALUES)).tobytes() * (count // 4) + values[start + count :]
    elif how == "rename":
        name = rng.choice(names)
        header[rng.choice((f"{name}x", "", "\x1b[2J", "x" * 10_000))] = header.pop(name)
    elif how == "lose":
        del header[rng.choice(names)]
    elif how == "length":
        told = rng.choice((0, 1, size - 1, size + 1, 2**32, 2**63, 2**64 - 1))
        return how, told.to_bytes(8, "little") + content[8:]
    elif how == "metadata":
        told = header.get("__metadata__", {})
        header["__metadata__"] = rng.choice(({}, {"format": 4}, {**told, "more": "x" * 1000}, None, rng.choice(names)))
    else:
        one, other = rng.choice(names), rng.choice(names)
        header[one], header[other] = header[other], header[one]
    text = json.dumps(header).encode()
    return how, len(text).to_bytes(8, "little") + text + values


def damaged_hdf5(path: Path, rng: Random) -> str:
    """In place, by the library itself."""
    how = rng.choice(("declared", "values", "type", "shape", "link", "soft", "external", "lose", "more", "name", "ids"))
    with h5py.File(path, "r+") as file:
        name = rng.choice(sorted(file))
        old, attributes = file[name][()], dict(file[name].attrs)
        if how == "values":
            old.flat[rng.randrange(old.size)] = rng.choice(ODD_VALUES)
            file[name][...] = old
            return how
        if how == "ids":
            file[name].attrs["obj_ids"] = rng.choice(
                (np.array([7, 7]), "7", np.zeros((2, 2)), np.array([b"\xff", b"8"]))
            )
            return how
        if how == "more":
            file["alpha_zz"] = old
            return how
        del file[name]
        if how == "declared":
            file.create_dataset(name, shape=rng.choice(((36, FAR), (FAR, 6), (36,) * 6)), chunks=True, dtype="f4")
        elif how == "type":
            kind = rng.choice(("f8", "f2", "i4", "S5", "bool", "c8"))
            file[name] = old.astype(kind) if kind != "S5" else np.full(old.shape, b"words")
        elif how == "shape":
            file[name] = rng.choice((old.T, old[:1], old[..., :0], old[None], np.float32(1), old.ravel()))
        elif how == "link":
            file[name] = h5py.ExternalLink(
                rng.choice(("/etc/passwd", "nowhere.hdf5", path.name, "/dev/zero")), "/alpha_a0"
            )
        elif how == "soft":
            file[name] = h5py.SoftLink(rng.choice((f"/{name}", "/nowhere", "/")))
        elif how == "external":
            place = rng.choice(("/etc/passwd", "/dev/zero", "nowhere"))
            file.create_dataset(name, shape=old.shape, dtype="f4", external=[(place, 0, h5py.h5f.UNLIMITED)])
        elif how == "name":
            file[rng.choice(("nothing", "_", "a_b_c", "\x1b[2J_x", "alpha_" + "x" * 5000))] = old
        if how in ("type", "shape") and isinstance(file.get(name), h5py.Dataset):
            file[name].attrs.update(attributes)
    return how


class _Call:
    """Pickled, it asks whoever opens it to run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f'touch "${MARK}"',)


def damaged_torch(content: bytes, rng: Random) -> tuple[str, bytes]:
    """A checkpoint saved again with other contents, or an archive whose members are others."""
    ways: dict[str, Callable[[bytes, Random], bytes]] = {
        "saved otherwise": _saved_otherwise,
        "another pickle": _another_pickle,
        "members": _members,
    }
    how = rng.choice((*ways, "saved otherwise"))
    return how, ways[how](content, rng)


def _saved_otherwise(content: bytes, rng: Random) -> bytes:
    document = torch.load(io.BytesIO(content), weights_only=True)
    part = rng.choice(list(document)) if "critic" in document else None
    state = document[part].get("state_dict", document[part]) if part else document
    name = rng.choice(list(state))
    value = state[name]
    others: list[Any] = [None, "text", 5, [1], {}, torch.zeros(3), torch.zeros(0), torch.tensor(1.0)]
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        others += [value.int(), value.double(), value.half(), value * float("nan"), value.T, value.bool(), value[:-1]]
        others += [
            value.to_sparse(),
            torch.zeros(1).expand(1 << 20, 1 << 12),
            value.to(torch.complex64),
            value.repeat(2, *[1] * (value.dim() - 1)),
        ]
    if rng.random() < 0.3:
        state[rng.choice(("more", "", "\x1b[2J", f"module.{name}", "x" * 9999))] = state.pop(name)
    else:
        state[name] = rng.choice(others)
    out = io.BytesIO()
    torch.save(document, out)
    return out.getvalue()


def _another_pickle(content: bytes, rng: Random) -> bytes:
    """The archive with other instructions for how to put it together."""
    depth = rng.choice((50, 900, 100_000))
    pickles = (
        pickle.dumps(_Call()),
        b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".",
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02]" + b"2" * 200_000 + b".",
        b"\x80\x02X" + (1 << 31).to_bytes(4, "little") + b"a.",
        b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".",
        pickle.dumps({"vln_bert": 1}, protocol=2),
    )
    return _rewritten(content, rng, lambda name, data: rng.choice(pickles) if name.endswith("data.pkl") else data)


def _members(content: bytes, rng: Random) -> bytes:
    """Members that are shorter, longer, gone, or compressed to much less than they are."""
    how = rng.choice(("cut", "grown", "inflated", "lost"))

    def change(name: str, data: bytes) -> bytes | None:
        if rng.random() > 0.1:
            return data
        changed = {"cut": data[:-1], "grown": data + b"\x00", "inflated": bytes(64 << 20), "lost": None}
        return changed[how]

    return _rewritten(content, rng, change, zipfile.ZIP_DEFLATED if how == "inflated" else zipfile.ZIP_STORED)


def _rewritten(
    content: bytes, rng: Random, change: Callable[[str, bytes], bytes | None], packing: int = zipfile.ZIP_STORED
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", packing) as new:
        for name in old.namelist():
            if (data := change(name, old.read(name))) is not None:
                new.writestr(name, data)
    return out.getvalue()
