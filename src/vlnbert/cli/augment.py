"""`vlnbert augment`: training data that nobody wrote."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import DataPath, Flag, FlatDecoding
from vlnbert.runtime import Precision
from vlnbert.speaker.config import Decoding

OutPath = Annotated[Path, tyro.conf.arg(metavar="FILE")]


def augment_paths(
    data: DataPath,
    out: OutPath,
    count: int | None = None,
    seed: int = 0,
    holdout: int = 0,
    holdout_seed: int = 0,
    json: Flag = False,
) -> None:
    """Write paths of R2R's kind through the train houses, for a speaker to describe.

    Shortest paths of four to six hops and at least 5 m, none that val_seen describes, in the houses of R2R's train
    split alone.

    Example: vlnbert augment paths --data data --out paths.json --count 75000

    Args:
        data: Folder with connectivity/ and r2r/.
        out: The file to write, new, in R2R's form without instructions.
        count: How many; all of them by default. Fewer are the first of more.
        seed: Chooses them, and the heading at each start.
        holdout: Houses of the train split to keep out, as in a training with --holdout: 6 of them, say.
        holdout_seed: Chooses those houses.
        json: Print one JSON object instead of a line: paths, known, described.
    """
    from json import dumps

    from vlnbert.api import augmenting

    found = augmenting.augment_paths(data, out, count, seed=seed, holdout=holdout, holdout_seed=holdout_seed)
    if json:
        print(dumps({"paths": len(found), "known": found.known, "described": found.described}))
    else:
        print(f"{out}: {len(found):,} of {found.known:,} paths; {found.described:,} left out, val_seen describes them")


def augment_speak(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN")]],
    *,
    paths: OutPath,
    out: OutPath,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    tellings: int = 1,
    decoding: FlatDecoding = Decoding("nucleus"),  # noqa: B008  # frozen
    keep_followed: Annotated[str | None, tyro.conf.arg(metavar="NAVIGATOR")] = None,
    within: float | None = None,
    checkpoint: Literal["best", "last"] = "best",
    batch: int | None = None,
    precision: Precision = "float32",
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Let a speaker tell every path of a file, as augmented data that a training learns from.

    A file r2r/NAME_aug.json of a data folder is the split r2r/NAME_aug. Instructions without words or without an end
    are left out and counted; so are paths outside of the train houses, and those that val_seen describes. The file is
    written whole or not at all: what was interrupted starts over. A small file beside it, NAME_aug.about.json, says who
    told it, and which houses that speaker had not seen. Fewer tellings are the first of more.

    Example: vlnbert augment paths --data data --out paths.json --count 75000

    Example: vlnbert augment speak runs/speaker --paths paths.json --out data/r2r/told_aug.json --device cuda

    Example: vlnbert train r2r-open-told --data data --out runs/told --device cuda

    Args:
        run: A run of a speaker, whose best weights speak; or a speaker's folder or hub name. One of REVERIE tells of an
            object that is seen where the path ends: the file's, or one that is drawn for each telling.
        paths: The paths, in R2R's form, as vlnbert augment paths writes them; or in REVERIE's.
        out: The file to write, new, with a name that ends in _aug.json.
        data: The data folder; by default the one that a run was trained on.
        tellings: Instructions for each path, which nucleus sampling tells apart.
        keep_followed: A run, navigator or agent: what it cannot follow back is left out.
        within: Metres from the path's end within which it must stop; by default 3.
        checkpoint: Which weights of a run speak: the best, or those of its last checkpoint.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        precision: Of the speaker's tokens; fastest is what multiplies faster on this device.
        device: Where the tensors are, such as cpu or cuda.
        json: Print one JSON object instead of a line: path, paths, written, left_out.
    """
    from json import dumps

    from vlnbert.api import augmenting

    found = augmenting.augment_speak(
        run,
        paths,
        out,
        data,
        tellings=tellings,
        **vars(decoding),
        keep_followed=keep_followed,
        within=within,
        checkpoint=checkpoint,
        batch=batch,
        precision=precision,
        device=device,
    )
    print(dumps(found.values()) if json else found)


def augment_sub_instructions(data: DataPath, out: OutPath, json: Flag = False) -> None:
    """Cut R2R's train instructions in parts, each with the part of the path that it describes.

    LAR2R's word labels say which words are due at which viewpoint (vlnbert data fetch DIR --only landmarks). A cut lies
    where the words that are due at a viewpoint begin with an action: what was said before leads to that viewpoint, and
    what is said from there on leads on to the goal. Either part has at least 3 viewpoints and 4 words. Nothing but the
    train split is cut, and parts along a path of val_seen are left out.
    The split r2r/sub_instructions, which r2r-open learns from, is made in the same way and needs no file: this is for
    other programs, and to look at.

    Example: vlnbert augment sub-instructions --data data --out parts.json

    Args:
        data: Folder with connectivity/, r2r/R2R_train.json and r2r/LAR2R_train.json.
        out: The file to write, new, in R2R's form. Path ids name the instruction, the part and the hop where it was
            cut: 4332_0_end_3, 4332_0_beginning_2.
        json: Print one JSON object instead of a line: sub_instructions, beginnings, ends, instructions, cut, left_out.
    """
    from json import dumps

    from vlnbert.api import augmenting

    found = augmenting.augment_sub_instructions(data, out)
    print(dumps(found.values()) if json else f"{out}: {found}")
