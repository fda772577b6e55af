"""Writing: kept keys and values change nothing, batches change nothing, and each method does what its name says."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor

from vlnbert.data.data import Data
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.rollout.mixed import keys, uniform
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.decoding import (
    GREEDY,
    TRIES,
    Draft,
    Generated,
    InstructionGenerator,
    Vocabulary,
    beam_search,
    nucleus_sample,
    write_word,
)
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker

NUCLEUS = Decoding("nucleus", top_p=0.8, temperature=1.3, seed=5)


def generate(
    speaker: Speaker, data: Data, paths: Paths, decoding: Decoding = GREEDY, precision: str = "float32"
) -> Generated:
    return InstructionGenerator(speaker, data.environment, precision).generate(paths, decoding)


@torch.no_grad()
def written_without_a_cache(speaker: Speaker, data: Data, paths: Paths, decoding: Decoding) -> tuple[Tensor, Tensor]:
    """The plain way: all words anew for each word; the tokens and the logarithm of their probability."""
    sights, (begin, end) = observe_paths(data.environment, paths), speaker.marks
    pieces, key = speaker.spoken.nonzero().flatten(), keys(decoding.seed, 0, torch.arange(len(paths)))
    tokens, total = torch.full((len(paths), 1), begin), torch.zeros(len(paths))
    ended = torch.zeros(len(paths), dtype=torch.bool)
    for position in range(speaker.config.max_tokens - 1):
        scores = speaker.logits(speaker(sights, tokens)[:, -1])[:, pieces].log_softmax(dim=1)
        place = scores.argmax(dim=1)
        if decoding.decoding == "nucleus":
            place = nucleus_sample(scores, uniform(key, torch.tensor(position)), decoding.top_p, decoding.temperature)
        word = pieces[place].masked_fill(ended, 0)
        total += scores.gather(1, place[:, None]).squeeze(1).masked_fill(ended, 0)
        ended |= word == end
        tokens = torch.cat((tokens, word[:, None]), dim=1)
    return tokens, total


@pytest.mark.parametrize("decoding", [Decoding(), NUCLEUS], ids=["greedy", "nucleus"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_changes_no_word(
    data: Data, make_speaker: Callable[..., Speaker], paths: Paths, decoding: Decoding, seed: int
) -> None:
    speaker = make_speaker(seed)
    generator = InstructionGenerator(speaker, data.environment)
    told = generator.generate_once(paths, decoding)
    tokens, total = written_without_a_cache(speaker, data, paths, decoding)
    assert torch.equal(told.tokens, tokens)
    torch.testing.assert_close(told.log_probability, total, rtol=1e-4, atol=1e-4)
    assert torch.equal(told.ended, (tokens == speaker.marks[1]).any(dim=1))


@pytest.mark.parametrize("decoding", [Decoding(), NUCLEUS, Decoding("beam")], ids=["greedy", "nucleus", "beam"])
def test_an_instruction_does_not_depend_on_its_batch(
    data: Data, speaker: Speaker, paths: Paths, decoding: Decoding
) -> None:
    generator = InstructionGenerator(speaker, data.environment)
    whole, pieces = (generator.generate(paths, decoding, batch=batch) for batch in (100, 4))
    assert torch.equal(whole.tokens, pieces.tokens)
    assert torch.equal(generator.generate(paths, decoding).tokens, whole.tokens), "nor on what was told before"


def test_sampling_follows_the_seed_and_the_telling(data: Data, speaker: Speaker, paths: Paths) -> None:
    generator = InstructionGenerator(speaker, data.environment)
    first, again = (generator.generate(paths, NUCLEUS) for _ in range(2))
    assert torch.equal(first.tokens, again.tokens)
    other = generator.generate(paths, NUCLEUS, repetition=1)
    assert not torch.equal(first.tokens, other.tokens)
    assert not torch.equal(first.tokens[0], first.tokens[4]), "the same path, told twice"
    another = generator.generate(paths, Decoding("nucleus", top_p=0.8, temperature=1.3, seed=6))
    assert not torch.equal(first.tokens, another.tokens)


def test_the_nucleus_by_hand() -> None:
    """0.5 and 0.3 reach 0.7, so only they are drawn, by 5 to 3."""
    scores = torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log()
    drawn = torch.tensor([0.0, 0.3, 0.62, 0.63, 0.9, 1 - 1e-12], dtype=torch.double)
    places = nucleus_sample(scores.expand(6, -1), drawn, top_p=0.7, temperature=1.0)
    assert places.tolist() == [1, 1, 1, 3, 3, 3]


def test_the_nucleus_holds_the_likeliest_alone_and_in_proportion() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 30).log_softmax(dim=1)
    drawn = (torch.arange(20000, dtype=torch.double) + 0.5) / 20000
    places = nucleus_sample(scores.expand(20000, -1), drawn, top_p=0.6, temperature=0.7)
    sharp = (scores[0] / 0.7).softmax(dim=0)
    inside = sharp.argsort(descending=True)[: int((sharp.sort(descending=True).values.cumsum(0) < 0.6).sum()) + 1]
    assert set(places.tolist()) == set(inside.tolist())
    shares = torch.bincount(places, minlength=30)[inside] / 20000
    torch.testing.assert_close(shares, sharp[inside] / sharp[inside].sum(), atol=1e-3, rtol=0)


def test_a_nucleus_of_next_to_nothing_is_greedy(data: Data, speaker: Speaker, paths: Paths) -> None:
    generator = InstructionGenerator(speaker, data.environment)
    sharp = Decoding("nucleus", top_p=1e-6)
    told = generator.generate_once(paths, sharp)
    assert torch.equal(told.tokens, generator.generate(paths).tokens)


@pytest.mark.parametrize("seed", range(3))
def test_beams_by_looking_at_everything(
    data: Data, make_speaker: Callable[..., Speaker], paths: Paths, seed: int
) -> None:
    """With as many beams as there are beginnings, the likeliest of all instructions that end is found."""
    speaker, few = make_speaker(seed, max_tokens=4), paths.select(torch.tensor([0, 1]))
    speaker.may_write(torch.tensor([5, 6]))
    (begin, end), decoding = speaker.marks, Decoding("beam", beams=16, length_penalty=0.0)
    told = generate(speaker, data, few, decoding)
    every = itertools.product((5, 6, end), repeat=3)
    sentences = {(*words[: words.index(end) + 1],) for words in every if end in words}
    pieces, sights = speaker.spoken.nonzero().flatten(), observe_paths(data.environment, few)
    best: list[tuple[float, tuple[int, ...]]] = [(-1e9, ())] * 2
    for words in sentences:
        tokens = torch.tensor([[begin, *words]]).expand(2, -1)
        with torch.no_grad():
            logits = speaker.logits(speaker(sights, tokens[:, :-1]))[..., pieces].log_softmax(dim=-1)
        places = torch.searchsorted(pieces, tokens[:, 1:].contiguous())
        totals = logits.gather(-1, places[..., None]).squeeze(-1).sum(dim=1).tolist()
        best = [max(old, (total, words)) for old, total in zip(best, totals, strict=True)]
    for row, (total, words) in enumerate(best):
        assert told.tokens[row, 1 : len(words) + 1].tolist() == list(words)
        assert float(told.log_probability[row]) == pytest.approx(total, abs=1e-4)


def test_one_beam_is_greedy_and_more_find_likelier(
    data: Data, make_speaker: Callable[..., Speaker], paths: Paths
) -> None:
    gains = []
    for seed in range(5):
        generator = InstructionGenerator(make_speaker(seed), data.environment)
        greedy, one, four = (
            generator.generate(paths, decoding)
            for decoding in (Decoding(), Decoding("beam", beams=1), Decoding("beam", beams=4, length_penalty=0.0))
        )
        assert torch.equal(greedy.tokens, one.tokens)
        gains.append((four.log_probability - greedy.log_probability).mean())
    assert min(gains) >= 0
    assert max(gains) > 0.01


def test_a_length_penalty_prefers_longer_ones(data: Data, speaker: Speaker, paths: Paths) -> None:
    generator = InstructionGenerator(speaker, data.environment)
    short, long = (
        (generator.generate(paths, Decoding("beam", length_penalty=penalty)).tokens != 0).sum()
        for penalty in (0.0, 3.0)
    )
    assert long > short


def biased(speaker: Speaker, token: int, by: float) -> Speaker:
    with torch.no_grad():
        speaker.bias[token] += by
    return speaker


@pytest.mark.parametrize("method", ["greedy", "nucleus", "beam"])
def test_empty_and_endless_ones_are_counted(data: Data, speaker: Speaker, paths: Paths, method: str) -> None:
    decoding = Decoding(method)  # type: ignore[arg-type]
    mute = generate(biased(speaker, speaker.marks[1], 1000.0), data, paths, decoding)
    assert mute.empty.all()
    assert not mute.usable.any()
    assert mute.problems() == ["6 of 6 are empty"]
    assert mute.texts(data.tokenizer) == [""] * 6
    assert mute.retries == (6 * (TRIES - 1) if method == "nucleus" else 0)
    endless = generate(biased(speaker, speaker.marks[1], -2000.0), data, paths, decoding)
    assert not endless.ended.any()
    assert endless.problems() == ["6 of 6 have no end within 12 word pieces"]


def test_what_came_to_nothing_is_told_again(data: Data, speaker: Speaker, paths: Paths) -> None:
    """Random weights give an instruction about every other time; four tries give far more."""
    many = paths.select(torch.arange(len(paths)).repeat(40))
    generator = InstructionGenerator(speaker, data.environment)
    decoding = Decoding("nucleus", top_p=1.0, temperature=1.0)
    once = generator.generate_once(many, decoding)
    told = generator.generate(many, decoding)
    assert 0.3 < once.usable.double().mean() < 0.6
    assert told.usable.double().mean() > 0.7
    assert told.retries >= int((~once.usable).sum())
    assert torch.equal(told.tokens[once.usable], once.tokens[once.usable]), "those that were good stay"


def test_only_what_may_be_said_is_said(data: Data, speaker: Speaker, paths: Paths) -> None:
    speaker.may_write(torch.tensor([0, 1, 2, 3, 6, 8]))
    told = generate(speaker, data, paths, Decoding("nucleus", temperature=10.0, top_p=1.0))
    assert set(told.tokens[:, 1:].flatten().tolist()) <= {0, 3, 6, 8}


def test_texts_are_joined_again(data: Data) -> None:
    text = "go up the stairs, and stop."
    ids = torch.tensor([[*data.tokenizer.encode(text).ids, 0, 0]])
    told = Generated(ids, torch.zeros(1), torch.ones(1, dtype=torch.bool), 0)
    assert told.texts(data.tokenizer) == [text]


def test_half_precision_tells_much_the_same(data: Data, speaker: Speaker, paths: Paths) -> None:
    whole, half = (generate(speaker, data, paths, precision=precision) for precision in ("float32", "bfloat16"))
    assert (whole.tokens == half.tokens).double().mean() > 0.6
    assert next(speaker.parameters()).dtype == torch.float32, "the speaker stays as it was"


def test_a_word_is_written_without_waiting(
    data: Data, speaker: Speaker, paths: Paths, no_waiting: Callable[[], AbstractContextManager[None]]
) -> None:
    words = Vocabulary(speaker, *speaker.marks)
    with torch.no_grad():
        encoded = speaker.encode(observe_paths(data.environment, paths))
        draft = Draft(speaker, words, encoded, 8, keys(0, 0, torch.arange(len(paths))))
        with no_waiting():
            for decoding in (Decoding(), NUCLEUS):
                write_word(speaker, words, draft, decoding)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"beams": 1.5}, "beams is 1.5"),
        ({"max_tokens": 2}, "max_tokens is 2"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, float], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Decoding(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "change", "told"),
    [
        ("greedy", {"top_p": 0.5}, r"top_p=0.5 is of nucleus decoding, .* add decoding='nucleus'"),
        ("beam", {"temperature": 0.5}, "temperature=0.5 is of nucleus"),
        ("nucleus", {"beams": 8}, "beams=8 is of beam decoding"),
        ("greedy", {"length_penalty": 0.0}, "length_penalty=0.0 is of beam"),
    ],
)
def test_settings_of_another_way_are_refused(method: Any, change: dict[str, Any], told: str) -> None:
    """They would be ignored."""
    with pytest.raises(UsageError, match=told):
        Decoding(method, **change)


def test_what_cannot_be_asked_for(data: Data, speaker: Speaker, paths: Paths) -> None:
    with pytest.raises(UnknownNameError, match="no decoding 'greed'; did you mean greedy"):
        Decoding("greed")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_tokens=13 is more than the 12 that the speaker knows"):
        generate(speaker, data, paths, Decoding(max_tokens=13))
    assert len(generate(speaker, data, paths.select(torch.tensor([], dtype=torch.long)))) == 0


def test_shorter_limits_hold(data: Data, speaker: Speaker, paths: Paths) -> None:
    encoded = speaker.encode(observe_paths(data.environment, paths))
    with torch.no_grad():
        told = beam_search(speaker, Vocabulary(speaker, *speaker.marks), encoded, 5, Decoding("beam"))
    assert told.tokens.shape == (len(paths), 5)
    assert generate(speaker, data, paths, Decoding(max_tokens=5)).tokens.shape == (len(paths), 5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("decoding", [Decoding(), NUCLEUS], ids=["greedy", "nucleus"])
def test_replayed_words_are_those_written_plainly(
    data: Data, speaker: Speaker, paths: Paths, decoding: Decoding
) -> None:
    on_gpu = data.seen_as(data.features, "cuda")
    there = Paths(*(one.cuda() for one in (paths.viewpoint, paths.length, paths.heading)))
    plain, graphs = (InstructionGenerator(speaker, on_gpu.environment, graphs=graphs) for graphs in (False, True))
    assert torch.equal(plain.generate(there, decoding).tokens, graphs.generate(there, decoding).tokens)
    again = graphs.generate(there, decoding, batch=4)
    assert torch.equal(again.tokens, plain.generate(there, decoding).tokens), "another shape, and one that is filled up"
    assert torch.equal(graphs.generate(there, decoding).tokens, plain.generate(there, decoding).tokens)
