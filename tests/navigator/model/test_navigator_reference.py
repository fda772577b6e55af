"""The navigator against a plain re-derivation: one long sequence, every token a query, nothing cached or left out."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.navigator.samples import CONFIGS, ONE, make, sight, words
from vlnbert.environment.environment import Observation
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.navigator import SIZES, Navigator, NavigatorConfig, fast, named_size
from vlnbert.navigator.model.bert import Attention, FeedForward
from vlnbert.tasks.batches import load_tokenizer


def attend(module: Attention, queries: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """BERT's attention by the book: [row, query, hidden] and the scores averaged over heads."""
    rows, heads = len(queries), module.heads
    q, k, v = (
        projection(tokens).view(rows, tokens.shape[1], heads, -1).transpose(1, 2)
        for projection, tokens in ((module.query, queries), (module.key, keys), (module.value, keys))
    )
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    weights = (scores + torch.where(mask, 0.0, -1e9)[:, None, None]).softmax(dim=-1)
    context = (weights @ v).transpose(1, 2).reshape(rows, queries.shape[1], -1)
    return module.norm(queries + module.output(context)), scores.mean(dim=1)


def feed(module: FeedForward, tokens: Tensor) -> Tensor:
    inner = module.inner(tokens)
    return module.norm(tokens + module.outer(inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))))


def plain_one_stream_step(navigator: Navigator, state: Tensor, words_in: Tensor, word_mask: Tensor, seen: Observation):
    """[row, slot] logits, the pooled state and the words' output, with the words as queries at every step."""
    backbone, count = navigator.backbone, words_in.shape[1]
    views = navigator.view_embedding(seen.features, seen.direction.repeat(1, 1, 2), fast.Packing(seen.choosable))
    tokens = torch.cat((navigator.past_decision(state, seen.facing.repeat(1, 2))[:, None], words_in, views), dim=1)
    mask = torch.cat((torch.ones(len(state), 1, dtype=torch.bool), word_mask, seen.choosable), dim=1)
    for layer in backbone.layers:
        tokens_after, scores = attend(layer.attention, tokens, tokens, mask)
        tokens = feed(layer.feed_forward, tokens_after)
    return scores[:, 0, 1 + count :], backbone.pooler(tokens[:, 0]), tokens[:, 1 : 1 + count]


@pytest.mark.parametrize("variant", ["embeddings", "initial", "previous"])
def test_variants_let_words_attend_at_every_step(variant: str) -> None:
    navigator = make(CONFIGS[f"one-stream {variant}"])
    tokens, mask = words(3, 8)
    instruction = navigator.encode(tokens, mask)
    embedded = navigator.backbone.embeddings(tokens)[:, 1:]
    initial = make(ONE).encode(tokens, mask).language.features  # the same weights, words attended once
    words_in = embedded if variant == "embeddings" else initial
    state = instruction.state
    for number in range(3):
        seen = sight(ONE, 3, seed=number)
        step = navigator.step(state, instruction, seen)
        logits, pooled, words_out = plain_one_stream_step(navigator, state, words_in, mask[:, 1:], seen)
        torch.testing.assert_close(step.logits[seen.choosable], logits[seen.choosable])
        attended = torch.einsum("rt,rth->rh", step.language_weights, words_in)
        weights = logits.masked_fill(~seen.choosable, -math.inf).softmax(dim=-1)
        views = torch.einsum(
            "rs,rsh->rh",
            weights,
            navigator.view_embedding(seen.features, seen.direction.repeat(1, 1, 2), fast.Packing(seen.choosable)),
        )
        torch.testing.assert_close(step.state, navigator.refinement(pooled, attended, views))
        state, instruction = step.state, step.instruction
        if variant == "previous":
            words_in = words_out


@pytest.mark.parametrize("name", ["one-stream objects", "two-stream objects"])
def test_one_stops_at_the_best_object(name: str) -> None:
    navigator = make(CONFIGS[name])
    instruction, seen = navigator.encode(*words(3, 8)), sight(CONFIGS[name], 3)
    step = navigator.step(instruction.state, instruction, seen)
    assert step.object_logits.shape == (3, 5)  # four objects and none
    assert torch.equal(step.logits[:, 0], step.object_logits.amax(dim=1))
    assert torch.equal(step.object_logits[:, :4].isneginf(), ~seen.visible_objects.present)
    assert step.object_logits[:, 4].isfinite().all()  # "no object" can always be chosen
    assert step.logits[0, 0] == step.object_logits[0, 4]  # and is all there is where no object is seen


@pytest.mark.parametrize("name", ["one-stream objects", "two-stream objects"])
def test_objects_are_seen_as_the_paper_says(name: str) -> None:
    """The token is LayerNorm(W [feature; W_p position; direction]); "no object" is the same of zeros."""
    config = CONFIGS[name]
    navigator, found = make(config), sight(config, 3).visible_objects
    direction = found.direction.repeat(1, 1, config.angle_width // 4)
    tokens = navigator.object_embedding(found.features, found.position, direction)
    whole = torch.cat(
        (found.features, found.position @ navigator.object_embedding.position.weight.T, direction), dim=-1
    )
    norm = navigator.object_embedding.norm
    torch.testing.assert_close(tokens[:, :4], norm(navigator.object_embedding.project(whole)))
    torch.testing.assert_close(tokens[:, 4], norm(navigator.object_embedding.project.bias).expand(3, -1))


def test_objects_refine_the_state_with_directions_alone() -> None:
    """[pooled; attended views]: no words, no LayerNorm of the views, no weight on objects."""
    navigator = make(CONFIGS["two-stream objects"])
    caught = {}
    navigator.refinement.register_forward_pre_hook(lambda _, inputs: caught.update(enumerate(inputs)))
    instruction, seen = navigator.encode(*words(3, 8)), sight(navigator.config, 3)
    step = navigator.step(instruction.state, instruction, seen)
    tokens = navigator.view_embedding(seen.features, seen.direction.repeat(1, 1, 2), fast.Packing(seen.choosable))[
        :, 1:
    ]
    weights = step.logits[:, 1:].softmax(dim=-1)
    views = torch.einsum("rs,rsh->rh", weights, tokens)
    torch.testing.assert_close(caught[2], views)
    joined = torch.cat((caught[0], views), dim=-1)
    torch.testing.assert_close(step.state, navigator.refinement.norm(navigator.refinement.project(joined)))


def test_a_dead_end_with_objects_gives_numbers() -> None:
    """A viewpoint without neighbours leaves no direction to attend to."""
    navigator = make(CONFIGS["one-stream objects"])
    seen = sight(navigator.config, 2)
    seen = replace(seen, choosable=torch.arange(6).expand(2, 6) < 1)
    instruction = navigator.encode(*words(2, 8))
    step = navigator.step(instruction.state, instruction, seen)
    assert step.state.isfinite().all()
    assert step.logits[:, 1:].isneginf().all()


def test_without_matching_the_state_is_what_was_pooled() -> None:
    navigator = make(CONFIGS["one-stream without matching"])
    caught = []
    navigator.backbone.pooler.register_forward_hook(lambda *call: caught.append(call[-1]))
    instruction = navigator.encode(*words(3, 8))
    step = navigator.step(instruction.state, instruction, sight(ONE, 3))
    assert torch.equal(step.state, caught[-1])


def test_saved_and_loaded_it_is_the_same(
    navigator: Navigator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nwalk\n")
    navigator.float().tokenizer = load_tokenizer(vocabulary)
    card = {"preset": "demo", "scores": {"val_unseen": {"sr": 0.5, "spl": 0.25}}}
    navigator.save_pretrained(tmp_path / "saved", model_card_kwargs=card)
    loaded = Navigator.from_pretrained(tmp_path / "saved")
    assert loaded.config == navigator.config
    assert loaded.tokenizer.encode("walk").ids == [2, 4, 3]
    before, after = navigator.state_dict(), loaded.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "| val_unseen | 50.00 | 25.00 |" in (tmp_path / "saved" / "README.md").read_text()
    assert capsys.readouterr().out == ""


def test_a_checkpoint_that_fits_in_part_is_refused(tmp_path: Path) -> None:
    make(ONE).save_pretrained(tmp_path / "saved")
    text = (tmp_path / "saved" / "config.json").read_text()
    (tmp_path / "saved" / "config.json").write_text(text.replace('"layers": 3', '"layers": 4'))
    (tmp_path / "saved" / "digests.json").unlink()
    with pytest.raises(DataError, match=r"layers\.3"):
        Navigator.from_pretrained(tmp_path / "saved")


@pytest.mark.parametrize(
    ("change", "words_of"),
    [
        ({"heads": 5}, "5 heads cannot share"),
        ({"heads": 0}, "heads is 0"),
        ({"layers": -1}, "layers is -1"),
        ({"feature_width": 10**13}, "choose a whole number from 1 to 1,048,576"),
        ({"object_width": 2**20 + 1}, "choose a whole number from 0 to 1,048,576"),
        ({"hidden": True}, "hidden is True"),
        ({"feature_dropout": 1.0}, "feature_dropout is 1.0"),
        ({"angle_width": 6}, "choose a multiple of 4"),
        ({"backbone": 3}, "backbone is 3"),
        ({"backbone_settings": {"a": [1]}}, "choose names with numbers"),
        ({"backbone_settings": "a"}, "choose names with numbers"),
    ],
)
def test_shapes_that_cannot_be_are_refused(change: dict, words_of: str) -> None:
    with pytest.raises(UsageError, match=words_of):
        replace(ONE, **change)


@pytest.mark.parametrize(
    ("change", "words_of"),
    [
        ({"cross_layers": 2}, "only two-stream"),
        ({"backbone": "two-stream"}, "0 cross layers in a two-stream backbone; choose cross_layers from 1"),
        ({"backbone": "two-stream", "cross_layers": 1, "language_attention": "initial"}, "needs the one-stream"),
    ],
)
def test_what_a_backbone_cannot_be_is_refused_by_it(change: dict, words_of: str) -> None:
    with pytest.raises(UsageError, match=words_of):
        Navigator(replace(ONE, **change))


@pytest.mark.parametrize("name", ["matching", "language_attention"])
def test_unknown_words_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no {name} 'clever'"):
        replace(ONE, **{name: "clever"})


def test_what_it_cannot_read_or_see_is_told() -> None:
    navigator = make(ONE)
    with pytest.raises(UsageError, match="at most 40"):
        navigator.encode(torch.ones(1, 41, dtype=torch.long), torch.ones(1, 41, dtype=torch.bool))
    instruction = navigator.encode(*words(2, 8))
    blind = replace(sight(ONE, 2), features=None)
    with pytest.raises(UsageError, match="feature bank"):
        navigator.step(instruction.state, instruction, blind)
    with_objects = sight(replace(ONE, object_width=5), 2)
    with pytest.raises(UsageError, match="without objects"):
        navigator.step(instruction.state, instruction, with_objects)


def test_sizes_have_both_backbones() -> None:
    for size in SIZES:
        for backbone in ("one-stream", "two-stream"):
            assert isinstance(named_size(size, backbone), NavigatorConfig)
            assert named_size(size, backbone).backbone == backbone
    with pytest.raises(Exception, match="did you mean base"):
        named_size("bas", "one-stream")
