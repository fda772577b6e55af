"""The checker passes what is good and names every kind of broken promise."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.world.samples import codes_of, furnished
from vlnbert.environment.contract import ContractError, check_environment, check_world, require
from vlnbert.environment.environment import WANTS, Environment
from vlnbert.features.views import all_views, open_features
from vlnbert.world.build import build_world
from vlnbert.world.objects import ObjectBank


def changed(world, name, place, value):
    """The same world with other numbers in one place of one table."""
    tensor = getattr(world, name).clone()
    tensor[place] = torch.as_tensor(value, dtype=tensor.dtype)
    return replace(world, **{name: tensor})


def test_good_ones_pass(tiny, world):
    assert check_world(world) == []
    assert check_environment(Environment(world)) == []
    assert check_environment(Environment(world, open_features(world, tiny.path("features/tiny.hdf5")))) == []
    require([])


@given(seed=st.integers(0, 10_000), count=st.integers(1, 15), extra=st.integers(0, 20), parts=st.integers(1, 3))
@settings(max_examples=30)
def test_any_graph_makes_a_good_world(random_graph, seed, count, extra, parts):
    world = build_world([random_graph(seed, max(count, parts), extra, parts), random_graph(seed + 1, 4, 3)])
    assert check_world(world) == []
    assert check_environment(Environment(world), agents=32, steps=3) == []


WORLDS = {  # alpha's viewpoint 0 has two neighbours and one slot of padding
    "a shape": (lambda w: replace(w, view=w.view[:, :-1]), "view has shape"),
    "too few pairs": (lambda w: replace(w, distance=w.distance[:-1]), "distance has shape"),
    "no such viewpoint": (lambda w: changed(w, "neighbour", (0, 1), len(w)), "no viewpoints"),
    "a negative viewpoint": (lambda w: changed(w, "neighbour", (0, 1), -1), "no viewpoints"),
    "an unreal scan": (lambda w: changed(w, "scan_of", 0, -1), "scan_of is not"),
    "a step to itself": (lambda w: changed(w, "neighbour", (0, 1), 0), "leads to itself"),
    "stop moves": (lambda w: changed(w, "neighbour", (0, 0), 1), "stop or padding elsewhere"),
    "padding moves": (lambda w: changed(w, "neighbour", (0, 3), 1), "stop or padding elsewhere"),
    "another scan": (lambda w: changed(w, "neighbour", (0, 1), 7), "another scan"),
    "a neighbour twice": (lambda w: changed(w, "neighbour", (0, 1), w.neighbour[0, 2]), "the same neighbour"),
    "no stop": (lambda w: changed(w, "choices", w.choices == 1, 0), "has no stop"),
    "too many choices": (lambda w: changed(w, "choices", 0, 99), "more choices than slots"),
    "a view": (lambda w: changed(w, "view", (0, 1), 36), "view is not in 0 to 35"),
    "padding has a view": (lambda w: changed(w, "view", (0, 3), 5), "padding has a view or an angle"),
    "stop has a heading": (lambda w: changed(w, "heading", (0, 0), 0.5), "padding has a view or an angle"),
    "an angle that is none": (lambda w: changed(w, "elevation", (0, 1), float("nan")), "not finite"),
    "a view that faces elsewhere": (lambda w: changed(w, "view", (0, 1), 18), "a view is not the one nearest"),
    "a heading that leads elsewhere": (lambda w: changed(w, "heading", (0, 1), 3.0), "a heading does not point"),
    "a one-way edge": (lambda w: changed(changed(w, "neighbour", (0, 1), 0), "choices", 0, 2), "one way"),
    "far from itself": (lambda w: changed(w, "distance", 0, 1.0), "from itself"),
    "a negative distance": (lambda w: changed(w, "distance", 1, -1.0), "negative"),
    "a distance that is none": (lambda w: changed(w, "distance", 1, float("nan")), "not a number"),
    "there and back": (lambda w: changed(w, "distance", 2, 4.0), "way back"),
    "a long edge": (lambda w: changed(w, "distance", [1, 6], 9.0), "longer than the straight line"),
    "half of every distance": (lambda w: replace(w, distance=w.distance / 2), "shorter or longer than the straight"),
    "positions elsewhere": (lambda w: replace(w, position=w.position * 2), "shorter or longer than the straight"),
    "a way round": (lambda w: changed(w, "distance", [2, 12], 9.0), "a way through a neighbour"),
    "fractions": (lambda w: replace(w, view=w.view.double()), "view holds fractions"),
    "a flat table": (lambda w: replace(w, neighbour=w.neighbour.flatten()), "a row for each"),
    "a name twice": (lambda w: replace(w, viewpoints=(w.viewpoints[1], *w.viewpoints[1:])), "occurs twice"),
    "another scan, far away": (lambda w: changed(w, "neighbour", (16, 1), 0), "another scan"),
    "stops early": (lambda w: changed(w, "next_slot", 1, 0), "stops before the goal"),
    "goes on at the goal": (lambda w: changed(w, "next_slot", 0, 1), "goes on at it"),
    "a detour": (lambda w: changed(w, "next_slot", 1, 2), "not on a shortest path"),
    "no such slot": (lambda w: changed(w, "next_slot", 1, 100), "no slots"),
    "a row elsewhere": (lambda w: changed(w, "row", 1, 0), "a place of its own"),
    "a row nowhere": (lambda w: changed(w, "row", 1, 10**6), "a place of its own"),
    "a column nowhere": (lambda w: changed(w, "column", 1, -5), "a place of its own"),
}


@pytest.mark.parametrize(("break_it", "words"), WORLDS.values(), ids=WORLDS)
def test_a_broken_world_is_told_and_not_stumbled_over(world, break_it, words):
    broken = check_world(break_it(world))
    assert any(words in line for line in broken), broken


class Elsewhere(Environment):
    def reset(self, start, heading):
        return super().reset(start.roll(1), heading)


class Asleep(Environment):
    def reset(self, start, heading):
        return replace(super().reset(start, heading), ended=torch.ones_like(start, dtype=torch.bool))


class Backwards(Environment):
    def reset(self, start, heading):
        return super().reset(start, heading + 3.14159)


class AnythingGoes(Environment):
    def observe(self, state):
        seen = super().observe(state)
        return replace(seen, choosable=torch.ones_like(seen.choosable))


class NoZeros(Environment):
    def observe(self, state):
        seen = super().observe(state)
        return replace(seen, direction=seen.direction + 0.5)


class Turned(Environment):
    def observe(self, state):
        seen = super().observe(state)
        return replace(seen, direction=seen.direction.flip(-1))


class Blurred(Environment):
    def observe(self, state):
        seen = super().observe(state)
        return replace(seen, direction=seen.direction / 0 * 0)


class Faceless(Environment):
    def observe(self, state):
        return replace(super().observe(state), facing=torch.zeros(len(state.view), 3))


class Dazed(Environment):
    def observe(self, state):
        return replace(super().observe(state), facing=torch.zeros(len(state.view), 4))


class Narrow(Environment):
    def observe(self, state):
        seen = super().observe(state)
        return replace(seen, direction=seen.direction[:, :-1])


class Lost(Environment):
    def step(self, state, slot):
        after = super().step(state, slot)
        return replace(after, viewpoint=after.viewpoint + len(self.world))


class Lazy(Environment):
    def step(self, state, slot):
        return replace(super().step(state, slot), viewpoint=state.viewpoint)


class Staring(Environment):
    def step(self, state, slot):
        return replace(super().step(state, slot), view=state.view)


class Restless(Environment):
    def step(self, state, slot):
        after = super().step(state, slot)
        return replace(after, ended=torch.zeros_like(after.ended))


class Waking(Environment):
    def step(self, state, slot):
        return super().step(replace(state, ended=torch.zeros_like(state.ended)), slot)


class Fickle(Environment):
    def step(self, state, slot):
        after = super().step(state, slot)
        return replace(after, view=torch.randint(36, after.view.shape))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Elsewhere, "reset moves agents"),
        (Asleep, "already stopped"),
        (Backwards, "does not face the nearest level view"),
        (AnythingGoes, "what may be chosen"),
        (NoZeros, "not all zeros"),
        (Turned, "a direction is not that of its slot"),
        (Blurred, "not finite"),
        (Faceless, "facing is not four numbers"),
        (Dazed, "facing is not the direction"),
        (Narrow, "direction is not four numbers"),
        (Lost, "does not lead where its slot leads"),
        (Lazy, "does not lead where its slot leads"),
        (Staring, "does not face"),
        (Restless, "stopping is not final"),
        (Waking, "stopping is not final"),
        (Fickle, "different states"),
    ],
)
def test_a_broken_environment(world, kind, words):
    broken = check_environment(kind(world))
    assert any(words in line for line in broken), broken
    assert len(broken) == len(set(broken))


OBJECTS = {
    "no masks": (lambda o: replace(o, present=o.present.long()), "present is not whether"),
    "another count": (lambda o: replace(o, position=o.position[:, 1:]), "objects are not a feature"),
    "short directions": (lambda o: replace(o, direction=o.direction[..., :3]), "objects are not a feature"),
    "things in padding": (lambda o: replace(o, features=o.features + 1), "padding behind objects is not all zeros"),
    "no number": (lambda o: replace(o, features=o.features / 0), "an object is not finite"),
    "pixels": (lambda o: replace(o, position=o.position * 640), "a position is not a box"),
    "another area": (lambda o: replace(o, position=o.position**2), "a position is not a box"),
    "half a direction": (lambda o: replace(o, direction=o.direction / 2), "direction is not two angles"),
}


@pytest.fixture
def things(tiny, world):
    objects = furnished(tiny, world)
    return ObjectBank.from_codebook(objects, codes_of(objects))


def test_good_objects_pass(world, things):
    assert check_environment(Environment(world, object_bank=things)) == []


@pytest.mark.parametrize(("change", "words"), OBJECTS.values(), ids=OBJECTS)
def test_broken_objects(world, things, change, words):
    class Broken(Environment):
        def observe(self, state):
            seen = super().observe(state)
            return replace(seen, visible_objects=change(seen.visible_objects))

    broken = check_environment(Broken(world, object_bank=things))
    assert any(words in line for line in broken), broken


def test_an_environment_of_a_broken_world(world):
    environment = Environment(world)
    environment.world = changed(world, "neighbour", (0, 1), len(world))
    assert check_environment(environment) == ["neighbour holds numbers that are no viewpoints"]


def test_require_raises_everything_at_once():
    with pytest.raises(ContractError) as caught:
        require(["one is broken", "two is broken"])
    assert str(caught.value).splitlines() == ["one is broken", "two is broken"]


WANTED = {
    "other neighbours": (lambda seen: {"neighbours": seen.neighbours.roll(1, dims=1)}, "the slots lead to"),
    "half a panorama": (lambda seen: {"panorama": around(seen, lambda part: part[:, :18])}, "four numbers an agent"),
    "no number": (lambda seen: {"panorama": around(seen, lambda part: part * float("nan"))}, "panorama is not finite"),
    "turned views": (lambda seen: {"panorama": around(seen, lambda part: part.roll(1, dims=1))}, "the one faced"),
}


def around(seen, change):
    return replace(seen.panorama, features=change(seen.panorama.features), direction=change(seen.panorama.direction))


@pytest.mark.parametrize(("break_it", "words"), WANTED.values(), ids=WANTED)
def test_what_agents_want_is_checked(tiny, world, break_it, words):
    file = tiny.path("features/tiny.hdf5")
    shown = Environment(world, open_panoramas=lambda: open_features(world, file, views=all_views(world))).showing(WANTS)
    assert check_environment(shown) == []
    whole = shown.observe
    shown.observe = lambda state: replace(whole(state), **break_it(whole(state)))
    assert any(words in line for line in check_environment(shown))
