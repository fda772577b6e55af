"""Paths told by a speaker, several times each, written as a PREVALENT-style file that a training learns from."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vlnbert.api.agents import load_agent
from vlnbert.api.arguments import checked
from vlnbert.api.runs import Run
from vlnbert.api.speakers import prepare_speaker, require_same_houses
from vlnbert.api.told_paths import PathsToTell
from vlnbert.data.data import Data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.walker import Walker
from vlnbert.navigator import Navigator
from vlnbert.progress import Bar, quiet
from vlnbert.rollout.agents import Agent, AgentFactory
from vlnbert.rollout.policy import Policy
from vlnbert.runtime import Precision, require_within
from vlnbert.sources.files import require_new, written_beside
from vlnbert.sources.instructions import is_augmented
from vlnbert.sources.provenance import Provenance, write_provenance
from vlnbert.speaker.config import Decoding, Method
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.holdout import DEV
from vlnbert.tasks.task import NEAR

MOST_TELLINGS = 1000


@dataclass(frozen=True)
class AugmentedFile:
    """A file of told paths, and what became of all that was told."""

    path: Path
    paths: int  # that were told
    written: int  # instructions in the file
    left_out: dict[str, int]  # how many were not written, by why; of paths that belong to an evaluation, the paths

    def values(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self) | {"path": str(self.path)}

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
        return f"{self.path}: {self.written:,} instructions of {self.paths:,} paths" + (
            f"; left out: {why}" * bool(why)
        )


@checked("speaker", "keep_followed", "device")
def augment_speak(
    speaker: Run | Speaker | str | Path,
    paths: str | Path,
    out: str | Path,
    data: Data | str | Path | None = None,
    *,
    tellings: int = 1,
    decoding: Method = "nucleus",
    top_p: float = 0.9,
    temperature: float = 0.9,
    beams: int = 4,
    length_penalty: float = 0.6,
    max_tokens: int | None = None,
    seed: int = 0,
    keep_followed: Run | Navigator | Policy | Agent | AgentFactory | str | Path | None = None,
    within: float | None = None,
    checkpoint: Checkpoint = "best",
    batch: int | None = None,
    precision: Precision = "float32",
    device: str | None = None,
    bar: bool = True,
) -> AugmentedFile:
    """Tell every path of a file, and write what was told as augmented data: `r2r/told_aug.json` is r2r/told_aug.

    Instructions without words or without an end are left out and counted, as are paths that belong to an evaluation:
    those outside of the train houses, and those of val_seen. The file is written whole or not at all; what was
    interrupted starts over. A small file beside it, `told_aug.about.json`, says who told it, and which houses that
    speaker had not seen. Fewer tellings are the first of more. A speaker of REVERIE tells of an object that is seen
    where the path ends: the file's, or one that is drawn for each telling.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker, or its folder or hub name.
        paths: The file of paths, in R2R's form, as `vln.augment_paths` writes it; or in REVERIE's.
        out: The file to write, new, with a name that ends in _aug.json.
        data: The data folder, or what `vln.open_data` gave; by default what a run was trained on.
        tellings: Instructions for each path, which nucleus sampling tells apart.
        decoding: How words are chosen, as `vln.speak` takes it.
        top_p: Of nucleus: the probability that the words have together among which one is drawn.
        temperature: Of nucleus: below 1 the likely gets likelier.
        beams: Of beam: instructions that are kept at each place.
        length_penalty: Of beam: the power of the length by which the logarithm of a probability is divided.
        max_tokens: Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's.
        seed: Of nucleus, and of the objects that are drawn.
        keep_followed: A navigator, as `vln.evaluate` takes an agent: what it cannot follow back is left out.
        within: Metres from the path's end within which it must stop; by default 3.
        checkpoint: Which weights of a run speak: the best, or those of its last checkpoint.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        precision: Of the speaker's tokens; fastest is what multiplies faster on this device.
        device: Where to speak, such as cpu or cuda; by default where the data is.
        bar: Show progress.
    """
    asked = Decoding(decoding, top_p, temperature, beams, length_penalty, max_tokens, seed)
    _require_sense(Path(out), tellings, asked, batch, keep_followed, within)
    with quiet(not bar):
        ready = prepare_speaker(speaker, data, checkpoint=checkpoint, precision=precision, device=device)
        told = PathsToTell.read(ready, Path(paths))
        walker = None
        if keep_followed is not None:
            walker = Walker(load_agent(keep_followed), ready.opened, f"{told.task}/train")
            if isinstance(walker.loaded.agent, Policy):  # others have learned nothing here
                require_same_houses(ready, walker, f"{told.task}/{DEV}")
        written, counts = 0, dict(told.left_out)
        with written_beside(Path(out)) as temporary:
            with temporary.open("w", encoding="utf-8") as file, Bar("tellings", tellings * len(told)) as progress:
                for block in told.blocks(asked, tellings, batch):
                    if walker is not None and block.records:
                        scores = walker.walk_records(block.records, Path(out), told.task).scores
                        assert scores is not None, "paths to describe have goals"
                        arrived = scores.ne < (NEAR if within is None else within)
                        block = block.keeping(arrived.tolist(), "not followed")
                    for item in block.items(told.width):
                        file.write(("[\n" if not written else ",\n") + json.dumps(item))
                        written += 1
                    for why, count in block.left_out.items():
                        counts[why] = counts.get(why, 0) + count
                    progress.update(progress.done + block.size, f"{written:,} instructions")
                file.write("\n]\n")
            result = AugmentedFile(
                Path(out), len(told), written, {why: count for why, count in counts.items() if count}
            )
            if not written:
                raise UsageError(f"nothing to write, {result}; train the speaker longer, or ask for less")
            about = Provenance(
                speaker=ready.name,
                held_out=ready.held_out,
                decoding={"method": asked.decoding, **{k: v for k, v in vars(asked).items() if k != "decoding"}},
                paths=len(told),
                tellings=tellings,
                instructions=written,
                keep_followed=None if walker is None else walker.name,
                bytes=temporary.stat().st_size,
            )
            write_provenance(Path(out), about)  # first, so that no told file is without
        return result


def _require_sense(
    out: Path, tellings: int, decoding: Decoding, batch: int | None, keep_followed: object, within: float | None
) -> None:
    """Refuse, before any work, what cannot be meant."""
    require_within(batch=(1 if batch is None else batch, 1, 1_000_000), tellings=(tellings, 1, MOST_TELLINGS))
    if not is_augmented(out) or out.suffix != ".json":
        raise UsageError(f"{out} would not be read as augmented data; give it a name that ends so: {out.stem}_aug.json")
    require_new(out)
    if tellings > 1 and decoding.decoding != "nucleus":
        problem = f"{setting('tellings', tellings)} would be the same {tellings} times by {decoding.decoding}"
        raise UsageError(f"{problem}; draw words: {setting('decoding', 'nucleus')}")
    if within is not None and keep_followed is None:
        raise UsageError(
            f"{setting('within', within)} is of a navigator that follows; name it: {setting('keep_followed')}"
        )
    if within is not None and not 0 < within < float("inf"):
        raise UsageError(f"{setting('within', within)} is no distance; give metres, such as 3")
