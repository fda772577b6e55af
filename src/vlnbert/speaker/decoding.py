"""Writing instructions: greedy or nucleus, a word of every row at a time, or by beam search; in batches of paths.

Shapes are static and nothing waits for the device, so that one step can be recorded as a CUDA graph and replayed for
each word. What nucleus sampling draws is a hash of the seed, the path and the word's place: a row's instruction is the
same in any batch.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer, decoders
from torch import Tensor
from torch.nn.functional import linear

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.rollout.mixed import keys, uniform
from vlnbert.sources.instructions import PAD
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.model import EncodedPaths, KeyValues, SpeakerModel
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker

JOINED = decoders.WordPiece(prefix="##", cleanup=True)
ROWS = ("tokens", "log_probability", "ended")  # the tensors of Generated
TRIES = 4  # times that a path's instruction is generated, at most, while sampling gives nothing or no end
BATCH, GPU_BATCH = 64, 2048  # paths of a batch
NEVER = float("-inf")
GREEDY = Decoding()
UNENDED = 1e6  # taken from the rank of a beam without an end, so that every beam that has one comes before it


@dataclass(frozen=True)
class Generated:
    """Generated instructions, one a row."""

    tokens: Tensor  # [row, token] from [CLS] to [SEP], then [PAD]
    log_probability: Tensor  # [row] of the instruction, by the speaker itself, whatever the temperature
    ended: Tensor  # [row] bool: whether [SEP] came within the limit
    retries: int = 0  # rows that were generated again, counted each time

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def empty(self) -> Tensor:
        """[row] bool: whether it has no words."""
        return self.ended & (self.tokens[:, 2] == PAD)

    @property
    def usable(self) -> Tensor:
        """[row] bool: whether it has words and an end."""
        return self.ended & ~self.empty

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The instructions as texts, without marks."""
        marks = {PAD, *(tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))}
        rows = ([token for token in row if token not in marks] for row in self.tokens.tolist())
        return [JOINED.decode([tokenizer.id_to_token(token) or "" for token in row]) for row in rows]

    def problems(self) -> list[str]:
        """How many are empty and how many have no end, in words."""
        empty, endless, limit = int(self.empty.sum()), int((~self.ended).sum()), self.tokens.shape[1]
        problems = [f"{empty:,} of {len(self):,} are empty"] if empty else []
        return problems + ([f"{endless:,} of {len(self):,} have no end within {limit} word pieces"] if endless else [])


class Vocabulary:
    """The word pieces that may be written, side by side, and the marks of beginning and end."""

    def __init__(self, model: SpeakerModel, begin: int, end: int) -> None:
        pieces = model.spoken.nonzero().flatten()
        self.pieces, self.begin, self.end = pieces, begin, end  # [piece] their ids
        self.weight, self.bias = model.word.weight[pieces], model.bias[pieces]

    def log_probabilities(self, output: Tensor) -> Tensor:
        """[row, piece] of the next word, in float32."""
        return linear(output, self.weight, self.bias).float().log_softmax(dim=-1)


class Draft:
    """Unfinished instructions, in tensors that stay in their places: a recorded graph reads and writes them."""

    def __init__(self, model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, key: Tensor) -> None:
        rows, device = len(key), key.device
        self.paths, self.key = paths, key.clone()
        self.cache: tuple[KeyValues, ...] = model.empty_cache(rows, tokens)
        self.tokens = torch.full((rows, tokens), PAD, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.token = torch.full((rows,), words.begin, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.log_probability = torch.zeros(rows, device=device)
        self.begin = words.begin
        self.restart(paths, key)

    def restart(self, paths: EncodedPaths, key: Tensor) -> None:
        """Begin anew, in the same memory, with other paths of the same shape. The cache of old words is masked."""
        for old, new in zip(self.paths.key_values, paths.key_values, strict=True):
            if old is not new:
                old.keys.copy_(new.keys)
                old.values.copy_(new.values)
        if self.paths is not paths:
            self.paths.mask.copy_(paths.mask)
        self.key.copy_(key)
        self.tokens.fill_(PAD)
        self.tokens[:, 0] = self.begin
        self.token.fill_(self.begin)
        self.position.zero_()
        self.ended.zero_()
        self.log_probability.zero_()

    def result(self) -> Generated:
        return Generated(self.tokens.clone(), self.log_probability.clone(), self.ended.clone())


def write_word(model: SpeakerModel, words: Vocabulary, draft: Draft, decoding: Decoding) -> None:
    """Write one more word of every row that has not ended. Changes the draft in place, never waits for the device."""
    log_probability = words.log_probabilities(model.step(draft.token, draft.position, draft.cache, draft.paths))
    if decoding.decoding == "nucleus":
        drawn = uniform(draft.key, draft.position)
        place = nucleus_sample(log_probability, drawn, decoding.top_p, decoding.temperature)
    else:
        place = log_probability.argmax(dim=1)
    gained = log_probability.gather(1, place[:, None]).squeeze(1)
    token = words.pieces[place].masked_fill(draft.ended, PAD)
    draft.log_probability.add_(gained.masked_fill(draft.ended, 0.0))
    draft.position.add_(1)
    draft.tokens.index_copy_(1, draft.position, token[:, None])
    draft.ended.logical_or_(token == words.end)
    draft.token.copy_(token)


def nucleus_sample(log_probability: Tensor, drawn: Tensor, top_p: float, temperature: float) -> Tensor:
    """[row] the place of a word among the likeliest that together have `top_p`, by a number `drawn` from 0 to 1 a row.

    The last word that is needed to reach `top_p` belongs to the nucleus, so that it is never empty.
    """
    sharp = (log_probability / temperature).softmax(dim=-1)
    ordered, order = sharp.sort(dim=-1, descending=True, stable=True)
    reached = ordered.double().cumsum(dim=-1)
    nucleus = reached - ordered < top_p
    within = (ordered.double() * nucleus).cumsum(dim=-1)
    chosen = torch.searchsorted(within, (drawn.double() * within[:, -1])[:, None], right=True)
    # Rounding must not lead beyond the end of the nucleus.
    chosen = chosen.minimum(nucleus.sum(dim=-1, keepdim=True) - 1)
    return order.gather(1, chosen).squeeze(1)


def beam_search(
    model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, decoding: Decoding
) -> Generated:
    """The best of `decoding.beams` instructions for each path, all rows and beams in one batch."""
    rows, beams, device = len(paths.mask), decoding.beams, paths.mask.device
    paths = paths.select(torch.arange(rows, device=device).repeat_interleave(beams))
    cache = model.empty_cache(rows * beams, tokens)
    written = torch.full((rows, beams, tokens), PAD, device=device)
    written[..., 0] = words.begin
    token, ended = written[..., 0].flatten(), torch.zeros(rows, beams, dtype=torch.bool, device=device)
    # All beams begin alike: only the first may be continued, or all would hold the same.
    score = torch.full((rows, beams), NEVER, device=device)
    score[:, 0] = 0.0
    length = torch.zeros(rows, beams, dtype=torch.long, device=device)
    first = (torch.arange(rows, device=device) * beams)[:, None]
    for place in range(tokens - 1):
        output = model.step(token, torch.full((1,), place, device=device), cache, paths)
        gained = words.log_probabilities(output).view(rows, beams, -1)
        # A beam that has ended has one continuation, at no cost.
        stays = torch.full_like(gained, NEVER)
        stays[..., 0] = 0.0
        total, longer = score[..., None] + torch.where(ended[..., None], stays, gained), length + (~ended).long()
        best = _rank(total, longer, decoding.length_penalty).flatten(1).topk(beams, dim=1).indices
        beam, piece = best // total.shape[2], best % total.shape[2]
        score, length = total.flatten(1).gather(1, best), longer.gather(1, beam)
        over = ended.gather(1, beam)
        word = words.pieces[piece].masked_fill(over, PAD)
        written = written.gather(1, beam[..., None].expand_as(written))
        written[..., place + 1] = word
        ended = over | (word == words.end)
        token = word.flatten()
        chosen = (first + beam).flatten()
        for layer in cache:
            layer.keys.copy_(layer.keys[chosen])
            layer.values.copy_(layer.values[chosen])
        # On a GPU this check would wait for the device.
        if device.type == "cpu" and bool(ended.all()):
            break
    rank = _rank(score, length, decoding.length_penalty)
    best = torch.where(ended, rank, rank - UNENDED).argmax(dim=1, keepdim=True)
    tokens_of_best = written.gather(1, best[..., None].expand(-1, 1, tokens)).squeeze(1)
    return Generated(tokens_of_best, score.gather(1, best).squeeze(1), ended.gather(1, best).squeeze(1))


def _rank(score: Tensor, length: Tensor, penalty: float) -> Tensor:
    """Scores of instructions, made comparable over lengths."""
    by_length = length.clamp(min=1).to(score.dtype).pow(penalty)
    return score / (by_length if score.dim() == 2 else by_length[..., None])


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
        decoding: Decoding = GREEDY,
        repetition: int = 0,
        batch: int | None = None,
        rows: Tensor | None = None,
    ) -> Generated:
        """An instruction for each path, or for each of some `rows` of them.

        `repetition` numbers the instructions of one path: nucleus sampling draws others for each. It also tries again,
        a few times, where nothing usable came.
        """
        rows = torch.arange(len(paths)) if rows is None else rows
        generated = self.generate_once(paths, decoding, repetition * TRIES, batch, rows)
        retries = 0
        for attempt in range(1, TRIES if decoding.decoding == "nucleus" else 1):
            again = (~generated.usable).nonzero().flatten().cpu()
            if not len(again):
                break
            retries += len(again)
            other = self.generate_once(paths, decoding, repetition * TRIES + attempt, batch, rows[again])
            for name in ROWS:
                getattr(generated, name)[again.to(generated.tokens.device)] = getattr(other, name)
        return replace(generated, retries=retries)

    @torch.no_grad()
    def generate_once(
        self, paths: Paths, decoding: Decoding, attempt: int = 0, batch: int | None = None, rows: Tensor | None = None
    ) -> Generated:
        """The same without another try.

        Where a word is recorded all batches have one shape: the last one is filled up with rows that are then dropped.
        """
        rows = torch.arange(len(paths)) if rows is None else rows
        device, most = self.environment.world.device, self.model.config.max_tokens
        limit = decoding.max_tokens or most
        if limit > most:
            problem = f"{setting('max_tokens', limit)} is more than the {most} that the speaker knows"
            raise UsageError(f"{problem}; choose {most} or fewer")
        size = min(batch or (GPU_BATCH if device.type == "cuda" else BATCH), max(1, len(rows)))
        none = torch.zeros(0, device=device)
        parts = [[torch.zeros(0, limit, dtype=torch.long, device=device), none, none.bool()]]
        for part in track(torch.split(rows, size) if len(rows) else (), "instructions"):
            whole = torch.cat((part, part[-1:].expand(size - len(part)))) if self.graphs else part
            index = whole.to(device)
            encoded = self.model.encode(observe_paths(self.environment, paths.select(index)))
            written = self._write(encoded, keys(decoding.seed, attempt, index), limit, decoding)
            parts.append([getattr(written, name)[: len(part)] for name in ROWS])
        tokens, log_probability, ended = map(torch.cat, zip(*parts, strict=True))
        return Generated(tokens, log_probability, ended)

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
            # On a GPU this check would wait for the device.
            if key.device.type == "cpu" and bool(draft.ended.all()):
                break
        return draft.result()


class _RecordedWord:
    """One word of every row, recorded as a CUDA graph over a draft's tensors."""

    def __init__(self, generator: InstructionGenerator, draft: Draft, decoding: Decoding) -> None:
        self.draft, self.decoding, self.graph = draft, decoding, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        # The first run sets libraries up, which may not be recorded.
        with torch.cuda.stream(stream):
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
