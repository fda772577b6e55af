"""Instructions for many paths: generated in batches, and again where sampling gave nothing usable."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.rollout.mixed import keys
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.decoding import ROWS, Draft, Generated, Vocabulary, beam_search, write_word
from vlnbert.speaker.model import EncodedPaths
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker

TRIES = 4  # times that a path's instruction is generated, at most, while sampling gives nothing or no end
BATCH, GPU_BATCH = 64, 2048  # paths of a batch


class InstructionGenerator:
    """A speaker at work: its weights in the chosen precision, and what it is shown, on one device.

    On a GPU the writing of a word is recorded once for each shape as a CUDA graph, and replayed for every word.
    """

    def __init__(
        self, speaker: Speaker, environment: Environment, precision: str = "float32", graphs: bool = True
    ) -> None:
        dtype, device = fast.dtype_of(precision), environment.world.device
        self.model = deepcopy(speaker).to(device, dtype).requires_grad_(False).eval()
        self.environment = environment.in_dtype(dtype)
        self.words = Vocabulary(self.model, *speaker.marks)
        self.graphs = graphs and device.type == "cuda"
        self.recorded: _RecordedWord | None = None

    def generate(
        self,
        paths: Paths,
        decoding: Decoding | None = None,
        repetition: int = 0,
        batch: int | None = None,
        rows: Tensor | None = None,
    ) -> Generated:
        """An instruction for each path, or for each of some `rows` of them.

        `repetition` numbers the instructions of one path: nucleus sampling draws others for each. It also tries again,
        a few times, where nothing usable came.
        """
        decoding, rows = decoding or Decoding(), torch.arange(len(paths)) if rows is None else rows
        generated = self.generate_once(paths, decoding, attempt=repetition * TRIES, batch=batch, rows=rows)
        retries = 0
        for attempt in range(1, TRIES if decoding.decoding == "nucleus" else 1):
            again = (~generated.usable).nonzero().flatten().cpu()
            if not len(again):
                break
            retries += len(again)
            number = repetition * TRIES + attempt
            other = self.generate_once(paths, decoding, attempt=number, batch=batch, rows=rows[again])
            for name in ROWS:
                getattr(generated, name)[again.to(generated.tokens.device)] = getattr(other, name)
        return replace(generated, retries=retries)

    @torch.no_grad()
    def generate_once(
        self,
        paths: Paths,
        decoding: Decoding,
        attempt: int = 0,
        batch: int | None = None,
        rows: Tensor | None = None,
    ) -> Generated:
        """The same without another try.

        Where a word is recorded all batches have one shape: the last one is filled up with rows that are then dropped.
        """
        rows = torch.arange(len(paths)) if rows is None else rows
        device, limit = self.environment.world.device, self._limit(decoding)
        size = min(batch or (GPU_BATCH if device.type == "cuda" else BATCH), max(1, len(rows)))
        parts = []
        for part in track(torch.split(rows, size) if len(rows) else (), "instructions"):
            whole = torch.cat((part, part[-1:].expand(size - len(part)))) if self.graphs else part
            index = whole.to(device)
            encoded = self.model.encode(observe_paths(self.environment, paths.select(index)))
            written = self._write(encoded, keys(decoding.seed, attempt, index), limit, decoding)
            parts.append(written.first(len(part)))
        return Generated.joined(parts, limit, device)

    def _write(self, encoded: EncodedPaths, key: Tensor, limit: int, decoding: Decoding) -> Generated:
        if decoding.decoding == "beam":
            return beam_search(self.model, self.words, encoded, limit, decoding)
        if self.graphs:
            if self.recorded is None or not self.recorded.fits(encoded, limit, decoding):
                draft = Draft(self.model, self.words, encoded, limit, key)
                self.recorded = _RecordedWord(self, draft, decoding)
            return self.recorded.write(encoded, key)
        draft = Draft(self.model, self.words, encoded, limit, key)
        for _ in range(limit - 1):
            write_word(self.model, self.words, draft, decoding)
            if key.device.type == "cpu" and bool(draft.ended.all()):  # on a GPU the look would wait for it
                break
        return draft.result()

    def _limit(self, decoding: Decoding) -> int:
        most = self.model.config.max_tokens
        if decoding.max_tokens is not None and decoding.max_tokens > most:
            problem = f"{setting('max_tokens', decoding.max_tokens)} is more than the {most} that the speaker knows"
            raise UsageError(f"{problem}; choose {most} or fewer")
        return decoding.max_tokens or most


class _RecordedWord:
    """One word of every row, recorded as a CUDA graph over a draft's tensors."""

    def __init__(self, generator: InstructionGenerator, draft: Draft, decoding: Decoding) -> None:
        self.draft, self.decoding, self.graph = draft, decoding, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries that work for the first time may not be recorded
            write_word(generator.model, generator.words, draft, decoding)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            write_word(generator.model, generator.words, draft, decoding)

    def fits(self, encoded: EncodedPaths, limit: int, decoding: Decoding) -> bool:
        same_shape = self.draft.paths.mask.shape == encoded.mask.shape and self.draft.tokens.shape[1] == limit
        return same_shape and replace(self.decoding, seed=0) == replace(decoding, seed=0)

    def write(self, encoded: EncodedPaths, key: Tensor) -> Generated:
        self.draft.restart(encoded, key)
        for _ in range(self.draft.tokens.shape[1] - 1):
            self.graph.replay()
        return self.draft.result()
