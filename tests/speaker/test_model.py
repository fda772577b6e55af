"""The network: its loss by hand, and that it reads what it should."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from vlnbert.data.data import Data
from vlnbert.errors import UsageError
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.model import instruction_likelihoods, perplexity, token_losses
from vlnbert.speaker.paths import Paths, PathSights, observe_paths
from vlnbert.speaker.speaker import Speaker


def test_the_loss_of_two_words_by_hand() -> None:
    """Three pieces; the first word has a probability of 1/2, the second of 1/4; what follows is padding."""
    logits = torch.tensor([[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]]]).log()
    losses = token_losses(logits, torch.tensor([[2, 1, 2, 0]]))
    assert losses.real.tolist() == [[True, True, False]]
    expected = torch.tensor([[math.log(4), math.log(4), 0.0]])
    torch.testing.assert_close(losses.negative_log, expected)
    assert perplexity(-losses.negative_log.double().sum(dim=1), losses.real.sum(dim=1)) == pytest.approx(4.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.3])
def test_smoothing_is_torchs(smoothing: float) -> None:
    torch.manual_seed(0)
    logits, tokens = torch.randn(3, 5, 7), torch.randint(1, 7, (3, 6))
    tokens[0, 4:] = 0
    expected = cross_entropy(
        logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0, label_smoothing=smoothing, reduction="none"
    )
    torch.testing.assert_close(token_losses(logits, tokens, smoothing).smoothed.flatten(), expected)


def test_likelihoods_do_not_depend_on_the_batch(data: Data, speaker: Speaker) -> None:
    split = data.split("r2r/train")
    one, words = instruction_likelihoods(speaker, data.environment, split, batch=1)
    many, same_words = instruction_likelihoods(speaker, data.environment, split, batch=100)
    torch.testing.assert_close(one, many, rtol=1e-5, atol=1e-5)
    assert torch.equal(words, same_words)
    assert words.tolist() == (split.tokens.count - 1).tolist(), "all words but [CLS]"


def test_instructions_that_are_too_long_are_refused(data: Data, make_speaker: Callable[..., Speaker]) -> None:
    with pytest.raises(UsageError, match="r2r/train has instructions of 9 word pieces, the speaker writes at most 5"):
        instruction_likelihoods(make_speaker(max_tokens=5), data.environment, data.split("r2r/train"))


def thought(speaker: Speaker, sights: PathSights) -> torch.Tensor:
    words = torch.full((len(sights.taken), 3), 6)
    with torch.no_grad():
        return speaker(sights, words)


@pytest.mark.parametrize("change", ["features", "direction", "taken"])
def test_every_part_of_a_path_is_read(data: Data, speaker: Speaker, paths: Paths, change: str) -> None:
    sights = observe_paths(data.environment, paths)
    changed = getattr(sights, change).clone()
    changed[0, 1] = changed[0, 1].roll(1, 0) if change != "taken" else (changed[0, 1] + 1) % 2
    other = replace(sights, **{change: changed})
    before, after = thought(speaker, sights), thought(speaker, other)
    assert not torch.allclose(before[0], after[0], atol=1e-4)
    torch.testing.assert_close(before[1:], after[1:])


def test_padding_is_not_read(data: Data, speaker: Speaker, paths: Paths) -> None:
    sights = observe_paths(data.environment, paths)
    noise = torch.where(sights.present[..., None], sights.features, torch.randn_like(sights.features))
    torch.testing.assert_close(thought(speaker, sights), thought(speaker, replace(sights, features=noise)))


def test_words_see_only_those_before(data: Data, speaker: Speaker, paths: Paths) -> None:
    sights = observe_paths(data.environment, paths)
    words = torch.randint(5, 15, (len(paths), 6), generator=torch.Generator().manual_seed(0))
    other = words.clone()
    other[:, 4] = 5 + (words[:, 4] - 4) % 10
    with torch.no_grad():
        before, after = speaker(sights, words), speaker(sights, other)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-4)


def test_a_target_is_read_where_one_is_shown(data_with_objects: Data, make_speaker: Callable[..., Speaker]) -> None:
    split = data_with_objects.split("reverie/train")
    speaker = make_speaker(object_width=data_with_objects.object_width)
    assert split.target is not None
    shown = observe_paths(data_with_objects.environment, Paths.of(split.episodes, split.target))
    without = observe_paths(data_with_objects.environment, Paths.of(split.episodes, torch.full_like(split.target, -1)))
    differs = (thought(speaker, shown) - thought(speaker, without)).abs().amax(dim=(1, 2)) > 1e-4
    assert differs.tolist() == (split.target >= 0).tolist()


def test_a_path_that_is_too_long_is_refused(data: Data, make_speaker: Callable[..., Speaker], paths: Paths) -> None:
    with pytest.raises(UsageError, match="a path has 4 viewpoints, the speaker reads at most 3"):
        make_speaker(max_hops=3).encode(observe_paths(data.environment, paths))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden": 10, "heads": 3}, "3 heads cannot share a width of 10"),
        ({"decoder_layers": 0}, "decoder_layers is 0; choose a whole number from 1"),
        ({"dropout": 1.0}, "dropout is 1.0; choose a number from 0 to below 1"),
        ({"max_tokens": 2}, "leaves no room for words"),
        ({"heads": True}, "heads is True"),
    ],
)
def test_shapes_that_cannot_be_are_refused(change: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        SpeakerConfig(**change)
