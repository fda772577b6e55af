"""What agents see of objects equals a slow and obvious look, however wide the padding."""

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.navigator.samples import CONFIGS, make, sight, words
from tests.world.samples import CROWD, ORDER, codes_of, everyone, furnished, plain_direction, plain_objects
from vlnbert.errors import UsageError
from vlnbert.world.objects import ObjectBank, build_object_table


@pytest.fixture
def objects(tiny, world):
    return furnished(tiny, world)


@pytest.fixture
def bank(objects):
    return ObjectBank.from_codebook(objects, codes_of(objects))


def test_every_viewpoint_from_every_view(tiny, world, objects, bank):
    for number, scan, name in everyone(world):
        seen = bank.look(torch.full((36,), number), torch.arange(36))
        expected = plain_objects(tiny, scan, name)
        assert seen.present.sum(dim=1).tolist() == [len(expected)] * 36
        for place, (id, shown, position) in enumerate(expected):
            assert objects.ids_at(torch.tensor([number]), torch.tensor([place])) == [id]
            assert seen.features[:, place].tolist() == [[int(objects.first[number]) + place + 1, shown + 1]] * 36
            torch.testing.assert_close(seen.position[:, place], torch.tensor([position] * 36))
            directions = torch.tensor([plain_direction(shown, faced) for faced in range(36)])
            torch.testing.assert_close(seen.direction[:, place], directions, atol=1e-6, rtol=0)


def test_a_direction_by_hand(world, bank):
    """Object 10 is in view 2, to the right and below; who faces heading 60 degrees looks straight above it."""
    where, place = world.find("alpha", "a1"), ORDER.index("10")
    seen = bank.look(torch.tensor([where, where, where]), torch.tensor([12, 14, 17]))
    half = 3**0.5 / 2
    by_hand = torch.tensor([[half, 0.5, -0.5, half], [0, 1, -0.5, half], [-1, 0, -0.5, half]])
    torch.testing.assert_close(seen.direction[:, place], by_hand, atol=1e-6, rtol=0)


def test_padding_is_all_zero(world, bank):
    seen = bank.look(torch.arange(len(world)), torch.arange(len(world)) % 36)
    assert torch.equal(seen.present, torch.arange(CROWD) < bank.object_table.count[:, None])
    for table in (seen.features, seen.position, seen.direction):
        assert not table[~seen.present].any()
        assert table[seen.present].any(dim=-1).all()


@pytest.mark.parametrize(
    ("names", "width"), [(["a2"], 4), (["a3", "a2"], 4), (["a1", "a3"], 8), (["a0", "a3"], CROWD), ([], 4)]
)
def test_as_wide_as_needed(world, bank, names, width):
    viewpoint = torch.tensor([world.find("alpha", name) for name in names], dtype=torch.long)
    view = torch.zeros_like(viewpoint)
    assert bank.look(viewpoint, view).features.shape == (len(names), width, 2)
    assert replace(bank, fixed=True).look(viewpoint, view).features.shape == (len(names), CROWD, 2)


@given(seed=st.integers(0, 1000))
def test_trimmed_is_the_beginning_of_fixed(world, bank, seed):
    generator = torch.Generator().manual_seed(seed)
    viewpoint, view = (torch.randint(end, (3,), generator=generator) for end in (len(world), 36))
    narrow, wide = (each.look(viewpoint, view) for each in (bank, replace(bank, fixed=True)))
    for field in fields(narrow):
        found, whole = getattr(narrow, field.name), getattr(wide, field.name)
        assert torch.equal(found, whole[:, : found.shape[1]])
        assert not whole[:, found.shape[1] :].any()


@pytest.mark.parametrize("name", ["one-stream objects", "two-stream objects"])
def test_navigators_do_not_mind_the_padding(world, objects, name):
    navigator, seen = make(CONFIGS[name]), sight(CONFIGS[name], 3)
    generator = torch.Generator().manual_seed(0)
    bank = ObjectBank.from_codebook(objects, torch.randn(len(objects), 5, generator=generator, dtype=torch.float64))
    viewpoint = torch.tensor([world.find("alpha", name) for name in ("a1", "a2", "a3")])
    instruction = navigator.encode(*words(3, 9))
    narrow, wide = (
        navigator.step(
            instruction.state,
            instruction,
            replace(seen, visible_objects=each.look(viewpoint, torch.tensor([0, 17, 30]))),
        )
        for each in (bank, replace(bank, fixed=True))
    )
    width = narrow.object_logits.shape[1] - 1  # the last stands for "no object"
    assert (width, wide.object_logits.shape[1]) == (8, CROWD + 1)
    torch.testing.assert_close(narrow.logits, wide.logits)
    torch.testing.assert_close(narrow.state, wide.state)
    torch.testing.assert_close(narrow.object_logits[:, :-1], wide.object_logits[:, :width])
    torch.testing.assert_close(narrow.object_logits[:, -1], wide.object_logits[:, -1])
    assert wide.object_logits[:, width:-1].isneginf().all()


def test_a_codebook_serves_many_objects(objects):
    vectors = torch.arange(1.0, len(objects.names) + 1)[:, None]
    bank = ObjectBank.from_codebook(objects, vectors, objects.name)
    assert bank.table.shape == (len(objects.names) + 1, 1)
    for viewpoint in range(len(objects.count)):
        seen = bank.look(torch.tensor([viewpoint]), torch.tensor([0]))
        rows = objects.viewpoint == viewpoint
        assert seen.features[seen.present].flatten().tolist() == (objects.name[rows] + 1).tolist()


def test_no_more_than_asked_for(world, objects):
    bank = ObjectBank.from_codebook(objects, codes_of(objects), max_objects=5)
    assert bank.widest == bank.object_table.widest == 5
    assert bank.object_table.left_out == len(objects) - len(bank.object_table) == CROWD - 5 + len(ORDER) - 5
    where = torch.tensor([world.find("alpha", "a1")])
    seen = bank.look(where, torch.tensor([0]))
    kept = bank.object_table.ids_at(where.expand(5), torch.arange(5))
    assert kept == [id for id in ORDER if id != "bed"]  # its box is out of sight
    assert seen.features[0, :, 0].tolist() == [
        objects.index(int(where), id) + int(objects.first[where]) + 1 for id in kept
    ]


def test_a_world_without_objects(tiny, world):
    bank = ObjectBank.from_codebook(build_object_table(world, [], tiny.folder.boxes), torch.zeros(0, 3))
    seen = bank.look(torch.tensor([0, 4]), torch.tensor([0, 1]))
    assert seen.features.shape == (2, 1, 3)
    assert not seen.present.any()


def test_other_precisions_and_devices(bank):
    assert bank.to("cpu", torch.bfloat16).look(torch.tensor([0]), torch.tensor([0])).features.dtype == torch.bfloat16
    seen = bank.to("meta").look(*torch.zeros(2, 7, dtype=torch.long, device="meta"))
    assert seen.features.shape == (7, CROWD, 2)
    assert seen.present.device.type == "meta"


def test_a_fixed_look_waits_for_nobody(bank, no_waiting):
    fixed, viewpoint, view = replace(bank, fixed=True), torch.tensor([0, 3]), torch.tensor([1, 2])
    with no_waiting():
        fixed.look(viewpoint, view)


def test_what_does_not_fit_is_refused(objects):
    vectors = torch.zeros(3, 2)
    for code in (None, objects.name[:-1], torch.full_like(objects.name, 3), torch.full_like(objects.name, -1)):
        with pytest.raises(UsageError, match="do not serve"):
            ObjectBank.from_codebook(objects, vectors, code)
    with pytest.raises(UsageError, match="choose 1 or more"):
        ObjectBank.from_codebook(objects, codes_of(objects), max_objects=0)
