"""Beam search: several instructions of each path under way, all rows and beams in one batch."""

import torch
from torch import Tensor

from vlnbert.speaker.decoding import Decoding, Vocabulary, Written
from vlnbert.speaker.layers import KeyValues
from vlnbert.speaker.likelihood import PAD
from vlnbert.speaker.model import EncodedPaths, SpeakerModel

NEVER = float("-inf")
UNENDED = 1e6  # more than any rank: what has ended comes first


def write_beams(
    model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, decoding: Decoding
) -> Written:
    """The best of `decoding.beams` instructions for each path; on a GPU nothing waits for the device."""
    rows, beams, device = len(paths.mask), decoding.beams, paths.mask.device
    every = torch.arange(rows, device=device).repeat_interleave(beams)
    paths, before = paths.select(every), model.room(rows * beams, tokens)
    written = torch.full((rows, beams, tokens), PAD, device=device)
    written[..., 0] = words.begin
    token, ended = written[..., 0].flatten(), torch.zeros(rows, beams, dtype=torch.bool, device=device)
    # All beams begin alike: only the first may go on, or all would hold the same.
    score = torch.full((rows, beams), NEVER, device=device)
    score[:, 0] = 0.0
    length = torch.zeros(rows, beams, dtype=torch.long, device=device)
    first = (torch.arange(rows, device=device) * beams)[:, None]
    for place in range(tokens - 1):
        thought = model.step(token, torch.full((1,), place, device=device), before, paths)
        gained = words.log_probabilities(thought).view(rows, beams, -1)
        total, longer = _continued(score, gained, ended), length + (~ended).long()
        best = _rank(total, longer, decoding.length_penalty).flatten(1).topk(beams, dim=1).indices
        beam, piece = best // total.shape[2], best % total.shape[2]
        score, length = total.flatten(1).gather(1, best), longer.gather(1, beam)
        over = ended.gather(1, beam)
        said = words.pieces[piece].masked_fill(over, PAD)
        written = written.gather(1, beam[..., None].expand_as(written))
        written[..., place + 1] = said
        ended = over | (said == words.end)
        token = said.flatten()
        _reorder(before, (first + beam).flatten())
        if device.type == "cpu" and bool(ended.all()):  # where to look is free
            break
    rank = _rank(score, length, decoding.length_penalty)
    best = torch.where(ended, rank, rank - UNENDED).argmax(dim=1, keepdim=True)  # one without an end is of no use
    tokens_of_best = written.gather(1, best[..., None].expand(-1, 1, tokens)).squeeze(1)
    return Written(tokens_of_best, score.gather(1, best).squeeze(1), ended.gather(1, best).squeeze(1))


def _continued(score: Tensor, gained: Tensor, ended: Tensor) -> Tensor:
    """[row, beam, piece] the scores of all continuations; what has ended goes on in one way, at no cost."""
    stays = torch.full_like(gained, NEVER)
    stays[..., 0] = 0.0
    return score[..., None] + torch.where(ended[..., None], stays, gained)


def _rank(score: Tensor, length: Tensor, penalty: float) -> Tensor:
    """By what instructions of several lengths are compared."""
    by_length = length.clamp(min=1).to(score.dtype).pow(penalty)
    return score / (by_length if score.dim() == 2 else by_length[..., None])


def _reorder(before: tuple[KeyValues, ...], rows: Tensor) -> None:
    """What is kept of the words follows the beams that were chosen."""
    for kept in before:
        kept.keys.copy_(kept.keys[rows])
        kept.values.copy_(kept.values[rows])
