"""The likelihood of instructions under a speaker: its loss, and perplexity."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.instructions import PAD
from vlnbert.speaker.model import SpeakerModel
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.tasks.batches import Batch, bucket, evaluation_batches, take
from vlnbert.tasks.splits import Split


@dataclass(frozen=True)
class TokenLosses:
    """Losses of every word but the first, [CLS]; [SEP] is among them. 0 in padding."""

    smoothed: Tensor  # [row, token - 1] cross-entropy with smoothed labels
    negative_log: Tensor  # [row, token - 1] minus the logarithm of its probability
    real: Tensor  # [row, token - 1] bool


def token_losses(logits: Tensor, tokens: Tensor, smoothing: float = 0.0) -> TokenLosses:
    """The losses of the words [row, token] under the logits [row, token - 1, piece] of each next one.

    With smoothing s, a word's label is 1 - s, and s is shared out evenly over all word pieces.
    """
    following = tokens[:, 1:]
    logits = logits if logits.dtype == torch.float64 else logits.float()
    whole = logits.logsumexp(dim=-1)
    negative_log = whole - logits.gather(-1, following[..., None]).squeeze(-1)
    smoothed = (1 - smoothing) * negative_log + smoothing * (whole - logits.mean(dim=-1)) if smoothing else negative_log
    real = following != PAD
    return TokenLosses(smoothed * real, negative_log * real, real)


def batch_losses(model: SpeakerModel, environment: Environment, batch: Batch, smoothing: float = 0.0) -> TokenLosses:
    """The losses of a batch's instructions for its paths. Nothing waits for the device."""
    sights = observe_paths(environment, Paths.of(batch, batch.target))
    tokens = batch.tokens[:, : model.config.max_tokens]  # what a bucket adds is padding
    return token_losses(model.logits(model(sights, tokens[:, :-1])), tokens, smoothing)


@torch.no_grad()
def instruction_likelihoods(
    model: SpeakerModel, environment: Environment, split: Split, batch: int = 256, ranks: Ranks = ALONE
) -> tuple[Tensor, Tensor]:
    """[episode] the logarithm of each instruction's probability, and [episode] its words, [SEP] included, [CLS] not."""
    device, count = environment.world.device, split.tokens.count.cpu()
    require_short(model, split)
    log_probability = torch.zeros(len(count), dtype=torch.float64, device=device)
    words = torch.zeros(len(count), dtype=torch.long, device=device)
    training = model.training
    model.eval()
    try:
        for rows in track(list(evaluation_batches(count, batch, ranks.rank, ranks.count)), split.name):
            index = rows.to(device)
            width = bucket(int(count[rows].max()))
            part = take(split.episodes, split.tokens, index, width, split.target)
            losses = batch_losses(model, environment, part)
            log_probability[index] = -losses.negative_log.double().sum(dim=1)
            words[index] = losses.real.sum(dim=1)
    finally:
        model.train(training)
    return ranks.sum(log_probability), ranks.sum(words)


def require_short(model: SpeakerModel, split: Split) -> None:
    """Refuse instructions that are longer than a speaker writes; whoever opens the split cuts them."""
    longest, most = int(split.tokens.count.max()) if len(split.tokens.count) else 0, model.config.max_tokens
    if longest > most:
        problem = f"{split.name} has instructions of {longest} word pieces, the speaker writes at most {most}"
        raise UsageError(f"{problem}; cut them when it is opened: {setting('max_tokens', most)}")


def perplexity(log_probability: Tensor, words: Tensor) -> float:
    """The exponential of the mean cross-entropy of a word, over all words of all instructions."""
    return float(torch.exp(-log_probability.sum() / words.sum()))
