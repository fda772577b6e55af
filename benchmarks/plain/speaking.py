"""Instructions the plain way: nothing is kept, so that every word reads all words before it anew."""

import torch
from torch import Tensor

from vlnbert.speaker.model import EncodedPaths
from vlnbert.speaker.paths import PathSights
from vlnbert.speaker.speaker import Speaker


@torch.no_grad()
def write_plainly(speaker: Speaker, sights: PathSights, tokens: int) -> Tensor:
    """[row, token] the likeliest word at each place, of instructions with so many tokens."""
    begin, end = speaker.marks
    pieces = speaker.spoken.nonzero().flatten()
    written = torch.full((len(sights.taken), 1), begin, device=sights.taken.device)
    ended = torch.zeros(len(written), dtype=torch.bool, device=written.device)
    paths: EncodedPaths = speaker.encode(sights)
    for _ in range(tokens - 1):
        thought = speaker.decode(paths, written)[:, -1]
        word = pieces[speaker.logits(thought)[:, pieces].argmax(dim=1)].masked_fill(ended, 0)
        ended = ended | (word == end)
        written = torch.cat((written, word[:, None]), dim=1)
    return written
