"""What must hold for every backbone and variant: caching, padding, order and batching change nothing."""

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from tests.navigator.samples import sight, words
from vlnbert.environment.environment import Observation, VisibleObjects
from vlnbert.navigator import Instruction, Navigator, Step
from vlnbert.navigator.model.bert import Attention

ROWS, LENGTH, STEPS = 3, 9, 3


def walk(navigator: Navigator, instruction: Instruction, seen: list[Observation]) -> list[Step]:
    """Several steps on end, so that what is carried over counts."""
    state, steps = instruction.state, []
    for observation in seen:
        steps.append(navigator.step(state, instruction, observation))
        state, instruction = steps[-1].state, steps[-1].instruction
    return steps


def sights(navigator: Navigator) -> list[Observation]:
    return [sight(navigator.config, ROWS, seed=seed) for seed in range(STEPS)]


def agree(first: Tensor | None, second: Tensor | None) -> None:
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        torch.testing.assert_close(first, second, rtol=0, atol=1e-9)


def on_rows(value: object, rows: slice) -> object:
    """The same rows of every tensor in an observation."""
    if isinstance(value, Tensor):
        return value[rows]
    if isinstance(value, Observation | VisibleObjects):
        return replace(value, **{field.name: on_rows(getattr(value, field.name), rows) for field in fields(value)})
    return value


def test_kept_keys_and_values_change_nothing(navigator: Navigator) -> None:
    instruction = navigator.encode(*words(ROWS, LENGTH))
    cached = walk(navigator, instruction, sights(navigator))
    plain = walk(navigator, instruction.uncached(), sights(navigator))
    assert (instruction.language.kv_cache is not None) == (navigator.config.language_attention == "once")
    for one, other in zip(cached, plain, strict=True):
        agree(one.state, other.state)
        agree(one.logits, other.logits)


def test_padding_changes_nothing(navigator: Navigator) -> None:
    tokens, mask = words(ROWS, LENGTH)
    wide = torch.nn.functional.pad(tokens, (0, 4)), torch.nn.functional.pad(mask, (0, 4))
    seen = sights(navigator)
    narrow_steps = walk(navigator, navigator.encode(tokens, mask), seen)
    wide_steps = walk(navigator, navigator.encode(*wide), [padded(observation) for observation in seen])
    for narrow, wider in zip(narrow_steps, wide_steps, strict=True):
        agree(narrow.state, wider.state)
        agree(narrow.logits, wider.logits[:, : narrow.logits.shape[1]])
        assert wider.logits[:, narrow.logits.shape[1] :].isneginf().all()
        agree(narrow.language_weights, wider.language_weights[:, : LENGTH - 1])


def padded(seen: Observation) -> Observation:
    """Two more slots and two more objects, none of them real."""

    def more(table: Tensor) -> Tensor:
        return torch.cat((table, table.new_zeros(len(table), 2, *table.shape[2:])), dim=1)

    found = seen.visible_objects
    if found is not None:
        found = VisibleObjects(*(more(getattr(found, field.name)) for field in fields(found)))
    return Observation(more(seen.choosable), more(seen.direction), seen.facing, more(seen.features), found)


def test_the_order_of_candidates_only_permutes(navigator: Navigator) -> None:
    instruction = navigator.encode(*words(ROWS, LENGTH))
    seen = sight(navigator.config, ROWS)
    order = torch.tensor([0, 4, 2, 5, 1, 3])  # stop stays in its slot
    names = ("choosable", "direction", "features")
    other = replace(seen, **{name: getattr(seen, name)[:, order] for name in names})
    before, after = (navigator.step(instruction.state, instruction, given) for given in (seen, other))
    agree(before.logits[:, order], after.logits)
    agree(before.state, after.state)
    agree(before.object_logits, after.object_logits)


@pytest.mark.parametrize("navigator", ["one-stream objects", "two-stream objects"], indirect=True)
def test_the_order_of_objects_only_permutes(navigator: Navigator) -> None:
    seen = sight(navigator.config, ROWS)
    instruction = navigator.encode(*words(ROWS, LENGTH))
    order = torch.tensor([3, 1, 0, 2])
    shuffled = VisibleObjects(
        *(getattr(seen.visible_objects, field.name)[:, order] for field in fields(seen.visible_objects))
    )
    before = navigator.step(instruction.state, instruction, seen)
    after = navigator.step(instruction.state, instruction, replace(seen, visible_objects=shuffled))
    agree(before.object_logits[:, [*order.tolist(), 4]], after.object_logits)
    agree(before.logits, after.logits)


def test_a_batch_equals_its_rows(navigator: Navigator) -> None:
    tokens, mask = words(ROWS, LENGTH)
    seen = sights(navigator)
    together = walk(navigator, navigator.encode(tokens, mask), seen)
    for row in range(ROWS):
        rows = slice(row, row + 1)
        alone = walk(navigator, navigator.encode(tokens[rows], mask[rows]), [on_rows(s, rows) for s in seen])
        for one, all_rows in zip(alone, together, strict=True):
            agree(one.state, all_rows.state[rows])
            agree(one.logits, all_rows.logits[rows])
            agree(navigator.value(one.state), navigator.value(all_rows.state)[rows])


def test_maps_are_weights_and_agree_with_the_decisions(navigator: Navigator) -> None:
    instruction = navigator.encode(*words(ROWS, LENGTH))
    seen = sight(navigator.config, ROWS)
    plain = navigator.step(instruction.state, instruction, seen)
    step = navigator.step(instruction.state, instruction, seen, attention_maps=True)
    agree(plain.logits, step.logits)
    assert plain.attention_maps is None
    assert step.attention_maps is not None
    over_words, over_vision = step.attention_maps.language[-1], step.attention_maps.visual[-1]
    one_stream = navigator.config.backbone == "one-stream"
    sums = (
        over_words.sum(-1) + over_vision.sum(-1)
        if one_stream
        else torch.stack((over_words.sum(-1), over_vision.sum(-1)))
    )
    agree(sums, torch.ones_like(sums))
    # The mean over heads of log weights is the logit, up to a constant of the row.
    logits = (
        plain.logits if plain.object_logits is None else torch.cat((plain.logits[:, 1:], plain.object_logits), dim=1)
    )
    weights = over_vision[:, :, 0, 1:].log().mean(dim=1)
    real = ~logits.isneginf()
    for row in range(ROWS):
        difference = (weights - logits)[row][real[row]]
        agree(difference, difference[:1].expand_as(difference))


def test_nobody_computes_weights_unasked(navigator: Navigator, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tensor:
        raise AssertionError("attention weights were computed")

    monkeypatch.setattr(Attention, "weights", refuse)
    instruction = navigator.encode(*words(ROWS, LENGTH))
    navigator.step(instruction.state, instruction, sight(navigator.config, ROWS))


def test_every_weight_learns(navigator: Navigator) -> None:
    """Through three steps, so that the refined state reaches a decision."""
    steps = walk(navigator, navigator.encode(*words(ROWS, LENGTH)), sights(navigator))
    terms = [step.logits[~step.logits.isneginf()].sum() + navigator.value(step.state).sum() for step in steps]
    sum(terms).backward()
    still = {name for name, weight in navigator.named_parameters() if weight.grad is None or not weight.grad.any()}
    key_biases = {name for name in still if name.endswith("key.bias")}  # shift all scores of a query alike
    assert still == key_biases


def test_training_drops_and_evaluation_does_not(navigator: Navigator) -> None:
    instruction, seen = navigator.encode(*words(ROWS, LENGTH)), sight(navigator.config, ROWS)

    def run() -> Tensor:
        return navigator.step(instruction.state, instruction, seen).state

    agree(run(), run())
    navigator.train()
    assert not torch.equal(run(), run())
