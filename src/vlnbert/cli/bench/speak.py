"""`vlnbert bench speak`: how fast a speaker writes, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.cli.bench.shared import MOST, RACED, folder_or_house
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import Precision, require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.speaking import SpeakingSpeed


@command("bench speak", places=["preset"], metavars={"preset": "PRESET"})
def bench_speak(
    preset: str = "speaker-open",
    data: Path | None = None,
    decoding: Literal["greedy", "nucleus", "beam"] = "nucleus",
    batch: int | None = None,
    tokens: int = 40,
    words: int = 2614,
    precision: Precision = "fastest",
    plain: bool = True,
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Measure how many sentences and words a speaker writes in a second, against the plain way without a cache.

    Weights are random, features are noise, and nobody stops before the limit. The plain way takes the likeliest word
    and reads all words before it anew for each; it is timed in turn with ours.

    Example: vlnbert bench speak --data data --device cuda

    Args:
        preset: Whose speaker; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, small houses are generated for the occasion.
        decoding: How words are chosen.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        tokens: Length of the sentences, [CLS] included; R2R's mean is 32.
        words: Word pieces that may be said; R2R's train split has 2,614.
        precision: Of the speaker's tokens.
        plain: Whether to time the plain way too.
        rounds: How often each rival is timed; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where the tensors are, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    import torch

    from vlnbert.benchmarks.speaking import repeated_paths, time_speaking
    from vlnbert.data.data import Data
    from vlnbert.learning.presets import presets
    from vlnbert.runtime import chosen_precision
    from vlnbert.speaker.config import Decoding
    from vlnbert.speaker.decoding import BATCH, GPU_BATCH
    from vlnbert.speaker.experiment import SpeakerExperiment

    shape = presets.experiment(preset, SpeakerExperiment).speaker
    require_within(rounds=(rounds, 2, MOST), tokens=(tokens, 3, shape.max_tokens), words=(words, 2, shape.vocabulary))
    require_within(batch=(1 if batch is None else batch, 1, MOST))
    require_device(device)
    use_threads(threads)
    where = torch.device(device)
    chosen = chosen_precision(precision, where, shape.hidden)
    with folder_or_house(data) as folder:
        opened = Data(folder, device=where)
        paths = repeated_paths(opened.episodes("r2r/train"), batch or (GPU_BATCH if where.type == "cuda" else BATCH))
        settings = Decoding(decoding, max_tokens=tokens)
        speed = time_speaking(
            opened, shape, paths, settings, precision=chosen, rounds=rounds, spoken=words, plain=plain
        )
    facts = {"preset": preset, "decoding": decoding, "precision": chosen, "device": device}
    if json:
        print(dumps({**facts, **_as_json(speed)}))
    else:
        _print(speed, f"{preset}, {decoding}, {chosen}, on {device}")


def _as_json(speed: "SpeakingSpeed") -> dict[str, Any]:
    told = {
        "sentences": speed.sentences,
        "tokens": speed.tokens,
        "seconds": speed.kept.median,
        "spread": speed.kept.spread,
        "sentences_a_second": speed.sentences_a_second,
        "tokens_a_second": speed.tokens_a_second,
        "memory_bytes": speed.memory,
    }
    if speed.plain is None:
        return told
    return {
        **told,
        "times_plain": speed.times_plain,
        "plain_seconds": speed.plain.median,
        "plain_memory_bytes": speed.plain_memory,
    }


def _print(speed: "SpeakingSpeed", title: str) -> None:
    from rich.table import Column, Table

    names = ["sentences", "sentences a second", "tokens a second", "memory, MB", "spread"]
    cells = [
        f"{speed.sentences:,}",
        f"{speed.sentences_a_second:,.0f}",
        f"{speed.tokens_a_second:,.0f}",
        f"{speed.memory / 1e6:,.0f}",
        f"{speed.kept.spread:.0%}",
    ]
    if speed.plain is not None:
        names += [*RACED, "its memory, MB"]
        cells += [f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}", f"{(speed.plain_memory or 0) / 1e6:,.0f}"]
    table = Table(*(Column(name, justify="right") for name in names), title=title, title_justify="left")
    table.add_row(*cells)
    screen().print(table)
