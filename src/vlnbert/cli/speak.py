"""`vlnbert speak`: turn paths into instructions."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from vlnbert.cli.options import Flag, FlatDecoding, OptionalSplit, show
from vlnbert.errors import UsageError
from vlnbert.runtime import Precision
from vlnbert.speaker.config import Decoding


def speak(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN")]],
    *,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    split: OptionalSplit = None,
    path: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SCAN:VIEWPOINT,...")] = (),
    decoding: FlatDecoding = Decoding(),  # noqa: B008  # frozen
    checkpoint: Literal["best", "last"] = "best",
    batch: int | None = None,
    precision: Precision = "float32",
    device: str = "cpu",
    score: Flag = False,
    navigator: Annotated[str | None, tyro.conf.arg(metavar="NAVIGATOR")] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: Flag = False,
) -> None:
    """Let a speaker tell of the paths of a split, or of any path: an instruction for each.

    Empty sentences, and those without an end, are told again by nucleus sampling and else left out, by name.

    Example: vlnbert train speaker-open --data data --out runs/speaker

    Example: vlnbert speak runs/speaker --split r2r/val_unseen

    Example: vlnbert speak runs/speaker --split r2r/val_unseen --decoding nucleus --seed 1 --out told.json

    Example: vlnbert speak runs/speaker --path scan:viewpoint,viewpoint,viewpoint

    With --score it is scored instead: BLEU-4 and CIDEr against what people said, the perplexity of that and, with
    --navigator, how well an agent follows what was told, beside how well it follows people on the same paths.

    Example: vlnbert speak runs/speaker --split r2r/val_unseen --score --navigator runs/people

    Args:
        run: A run of a speaker, whose best weights speak; or a speaker's folder or hub name.
        data: The data folder; by default the one that a run was trained on.
        split: The split whose paths to tell, each once, such as val_unseen, with its task where that is not the run's,
            or r2r. dev_unseen is made of the houses that a run kept out of its training.
        path: Instead of a split, one path or several by their viewpoints, one step apart: scan:viewpoint,viewpoint,...
        checkpoint: Which weights of a run speak: the best, or those of its last checkpoint.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        precision: Of the speaker's tokens; fastest is what multiplies faster on this device.
        device: Where the tensors are, such as cpu or cuda.
        score: Print scores of what is told instead of telling it.
        navigator: With --score: a run, navigator or agent that follows; best one that learned from people alone.
        out: A file to write, a JSON list in R2R's form, instead of printing.
        json: Print that list, or the scores as one object, instead of a table.
    """
    from vlnbert.api import speaking

    options: dict[str, Any] = {
        **vars(decoding),
        "checkpoint": checkpoint,
        "batch": batch,
        "precision": precision,
        "device": device,
    }
    if navigator is not None and not score:
        raise UsageError("--navigator follows to score a speaker; say so: --score")
    if score:
        if split is None or path or out is not None:
            raise UsageError(
                "--score scores a split, and prints; name a split and no paths or file: --split r2r/val_unseen"
            )
        scores = speaking.score_speaker(run, data, split, navigator=navigator, **options)
        if json:
            print(scores.to_json())
        else:
            show(scores.table())
        return
    told = speaking.speak(run, data, split, paths=path or None, **options)
    if out is not None:
        print(f"wrote {told.write(out)}: {len(told):,} instructions")
    elif json:
        print(told.to_json())
    else:
        show(replace(told.table(), note=""))  # it was said aside when it was told
