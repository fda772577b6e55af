"""Paths told in batches: written on the device, told again where nothing came of it, and given as texts."""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer, decoders
from torch import Tensor

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.rollout.mixed import keys
from vlnbert.speaker.beam import write_beams
from vlnbert.speaker.decoding import Decoding, Draft, Vocabulary, Written, write_word
from vlnbert.speaker.likelihood import PAD
from vlnbert.speaker.model import EncodedPaths
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker

TRIES = 4  # how often a path is told, at most, where sampling gave nothing or no end
BATCH, GPU_BATCH = 64, 2048  # paths that are told together
JOINED = decoders.WordPiece(prefix="##", cleanup=True)


@dataclass(frozen=True)
class Tellings:
    """What was told of some paths, one instruction each."""

    tokens: Tensor  # [path, token] from [CLS] to [SEP], padded with [PAD]
    log_probability: Tensor  # [path] by the speaker itself, whatever the temperature
    ended: Tensor  # [path] bool: whether it came to an end within the limit
    tries: int  # how often paths were told again, all together

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def empty(self) -> Tensor:
        """[path] whether nothing was said."""
        return self.ended & (self.tokens[:, 2] == PAD)

    @property
    def usable(self) -> Tensor:
        """[path] whether it is an instruction: with words, and an end."""
        return self.ended & ~self.empty

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The instructions as texts, without marks."""
        marks = {PAD, *(tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))}
        rows = self.tokens.tolist()
        return [
            JOINED.decode([tokenizer.id_to_token(token) or "" for token in row if token not in marks]) for row in rows
        ]

    def problems(self) -> list[str]:
        """In words, how many are no instructions, and why."""
        empty, endless = int(self.empty.sum()), int((~self.ended).sum())
        told = [f"{empty:,} of {len(self):,} are empty"] if empty else []
        limit = self.tokens.shape[1]
        return told + ([f"{endless:,} of {len(self):,} have no end within {limit} word pieces"] if endless else [])


class Teller:
    """A speaker at work: its weights in the precision asked for, and what it was shown, on one device.

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

    def tell(
        self,
        paths: Paths,
        decoding: Decoding | None = None,
        telling: int = 0,
        batch: int | None = None,
        rows: Tensor | None = None,
    ) -> Tellings:
        """An instruction for each path; `telling` numbers those of one path, which nucleus sampling tells apart.

        Of some rows alone, where these are named: then row n of what is told is path rows[n].
        """
        decoding, rows = decoding or Decoding(), torch.arange(len(paths)) if rows is None else rows
        told = self.tell_once(paths, decoding, attempt=telling * TRIES, batch=batch, rows=rows)
        tries = 0
        for attempt in range(1, TRIES if decoding.method == "nucleus" else 1):
            again = (~told.usable).nonzero().flatten().cpu()
            if not len(again):
                break
            tries += len(again)
            number = telling * TRIES + attempt
            other = self.tell_once(paths, decoding, attempt=number, batch=batch, rows=rows[again])
            for name in ("tokens", "log_probability", "ended"):
                getattr(told, name)[again.to(told.tokens.device)] = getattr(other, name)
        return replace(told, tries=tries)

    @torch.no_grad()
    def tell_once(
        self,
        paths: Paths,
        decoding: Decoding,
        attempt: int = 0,
        batch: int | None = None,
        rows: Tensor | None = None,
    ) -> Tellings:
        """The same without telling again what came to nothing; of some rows alone, where these are named.

        Batches are of one shape: where that is recorded the last one is filled up, and what it tells twice left away.
        """
        rows = torch.arange(len(paths)) if rows is None else rows
        device, limit = self.environment.world.device, self._limit(decoding)
        size = min(batch or (GPU_BATCH if device.type == "cuda" else BATCH), max(1, len(rows)))
        found = [Written.nothing(limit, device)]
        for part in track(torch.split(rows, size) if len(rows) else (), "instructions"):
            whole = torch.cat((part, part[-1:].expand(size - len(part)))) if self.graphs else part
            index = whole.to(device)
            encoded = self.model.encode(observe_paths(self.environment, paths.select(index)))
            written = self._write(encoded, keys(decoding.seed, attempt, index), limit, decoding)
            found.append(written.first(len(part)))
        return Tellings(
            torch.cat([one.tokens for one in found]),
            torch.cat([one.log_probability for one in found]),
            torch.cat([one.ended for one in found]),
            tries=0,
        )

    def _write(self, encoded: EncodedPaths, key: Tensor, limit: int, decoding: Decoding) -> Written:
        if decoding.method == "beam":
            return write_beams(self.model, self.words, encoded, limit, decoding)
        if self.graphs:
            if self.recorded is None or not self.recorded.fits(encoded, limit, decoding):
                draft = Draft(self.model, self.words, encoded, limit, key)
                self.recorded = _RecordedWord(self, draft, decoding)
            return self.recorded.write(encoded, key)
        draft = Draft(self.model, self.words, encoded, limit, key)
        for _ in range(limit - 1):
            write_word(self.model, self.words, draft, decoding)
            if key.device.type == "cpu" and bool(draft.ended.all()):  # where to look is free
                break
        return draft.written()

    def _limit(self, decoding: Decoding) -> int:
        most = self.model.config.max_tokens
        if decoding.max_tokens is not None and decoding.max_tokens > most:
            problem = f"{setting('max_tokens', decoding.max_tokens)} is more than the {most} that the speaker knows"
            raise UsageError(f"{problem}; choose {most} or fewer")
        return decoding.max_tokens or most


class _RecordedWord:
    """One word of every row, recorded as a CUDA graph over a draft's tensors."""

    def __init__(self, teller: Teller, draft: Draft, decoding: Decoding) -> None:
        self.draft, self.decoding, self.graph = draft, decoding, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries that work for the first time may not be recorded
            write_word(teller.model, teller.words, draft, decoding)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            write_word(teller.model, teller.words, draft, decoding)

    def fits(self, encoded: EncodedPaths, limit: int, decoding: Decoding) -> bool:
        same_shape = self.draft.paths.mask.shape == encoded.mask.shape and self.draft.tokens.shape[1] == limit
        return same_shape and replace(self.decoding, seed=0) == replace(decoding, seed=0)

    def write(self, encoded: EncodedPaths, key: Tensor) -> Written:
        self.draft.restart(encoded, key)
        for _ in range(self.draft.tokens.shape[1] - 1):
            self.graph.replay()
        return self.draft.written()
