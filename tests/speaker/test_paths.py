"""Paths as a speaker is shown them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

from vlnbert.data.data import Data
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.speaker.paths import Paths, observe_paths, taken_slots
from vlnbert.tasks.episodes import walkable
from vlnbert.world.world import STOP


def test_all_choices_are_shown_as_a_walker_would_see_them(data: Data) -> None:
    """Step by step along the path, the environment shows what is gathered at once."""
    split = data.split("r2r/train")
    paths, environment = Paths.of(split.episodes), data.environment.for_task("r2r")
    sights = observe_paths(data.environment, paths)
    state = environment.reset(split.episodes.start, split.episodes.heading)
    for hop in range(paths.viewpoint.shape[1]):
        seen, here = environment.observe(state), hop < paths.length
        assert seen.features is not None
        assert torch.equal(sights.features[here, hop], seen.features[here])
        assert torch.equal(sights.direction[here, hop], seen.direction[here])
        assert torch.equal(sights.present[:, hop], seen.choosable & here[:, None])
        state = environment.step(state, sights.taken[:, hop])
        following = paths.viewpoint[:, min(hop + 1, paths.viewpoint.shape[1] - 1)]
        assert torch.equal(state.viewpoint, following)


def test_the_last_choice_is_to_stop(data: Data, paths: Paths) -> None:
    taken, last = taken_slots(data.world, paths), paths.length - 1
    assert (taken.gather(1, last[:, None]) == STOP).all()
    moving = torch.arange(taken.shape[1]) < last[:, None]
    assert ((taken != STOP) == moving).all()


def test_a_path_by_names_begins_ahead(data: Data, paths: Paths) -> None:
    """Its first step is straight ahead, to the nearest of twelve headings."""
    sights = observe_paths(data.environment, paths)
    moving = paths.length > 1
    first = sights.direction[:, 0].gather(1, sights.taken[:, :1, None].expand(-1, -1, 4)).squeeze(1)[moving]
    assert (first[:, 1] >= torch.cos(torch.tensor(torch.pi / 12)) - 1e-6).all(), "cos of the relative heading"


@pytest.mark.parametrize(
    ("route", "told"),
    [
        (("alpha", ("a0", "a4")), "path 1 is not connected: no step leads from a0 to a4"),
        (("alpha", ("a0", "a0")), "path 1 is not connected: no step leads from a0 to a0"),
        (("alpha", ()), "a path in alpha has no viewpoints"),
    ],
)
def test_paths_that_nobody_can_walk_are_refused(data: Data, route: tuple[str, tuple[str, ...]], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Paths.through(data.world, [route])
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("scan", "name"), [("alpha", "zz"), ("delta", "a0")])
def test_unknown_names_are_told(data: Data, scan: str, name: str) -> None:
    with pytest.raises(UnknownNameError):
        Paths.through(data.world, [(scan, ("a0", name))])


def test_a_break_anywhere_is_found(data: Data, paths: Paths) -> None:
    broken = paths.viewpoint.clone()
    broken[1, 3] = data.world.find("gamma", "g0")
    assert walkable(data.world, broken, paths.length).tolist() == [True, False, *[True] * 4]


def test_the_target_is_the_one_at_the_goal(data_with_objects: Data) -> None:
    split = data_with_objects.split("reverie/train")
    assert split.target is not None
    sights = observe_paths(data_with_objects.environment, Paths.of(split.episodes, split.target))
    assert sights.target is not None
    assert data_with_objects.object_bank is not None
    goal = split.episodes.path.gather(1, (split.episodes.path_length - 1)[:, None]).squeeze(1)
    shown = data_with_objects.object_bank.look(goal, torch.zeros_like(goal))
    for row, place in enumerate(split.target.tolist()):
        assert bool(sights.target.present[row, 0]) == (place >= 0)
        if place >= 0:
            assert torch.equal(sights.target.features[row, 0], shown.features[row, place])


def test_looking_does_not_wait(
    data: Data, paths: Paths, no_waiting: Callable[[], AbstractContextManager[None]]
) -> None:
    environment = data.environment
    with no_waiting():
        observe_paths(environment, paths)
