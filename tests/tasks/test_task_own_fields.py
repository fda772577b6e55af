"""Several goals and fields of one's own: from a record to episodes, batches, teachers and scores."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.sources.instructions import EpisodeRecord, read_r2r
from vlnbert.tasks.batches import take
from vlnbert.tasks.episodes import Episodes, Extra, Picked, bind
from vlnbert.tasks.task import TASKS, metres_to_goal, nearest, register_task
from vlnbert.tasks.tokens import Tokens

HERE = Path("mine.json")


@pytest.fixture
def records(tiny, world):
    return list(read_r2r(tiny.folder.instruction_files("r2r")["train"]))


def bound(world, records, task="r2r") -> Episodes:
    return bind(HERE, records, world, task=task, split="mine")


def with_goals(records):
    """The first may end at its path's end or at its start's neighbour, the third anywhere on its path."""
    several = {0: ("a3", "a4"), 2: ("b3", "b2", "b0")}
    return [replace(one, goals=several.get(place, ())) for place, one in enumerate(records)]


def names(world, viewpoints):
    return [[world.viewpoints[number] for number in row] for row in viewpoints.tolist()]


def test_who_has_one_goal_has_none_of_this(world, records):
    episodes = bound(world, records)
    assert (episodes.goals, episodes.extra) == (None, {})
    batch = take(episodes, tokens(episodes), torch.tensor([2, 0]), width=8)
    assert batch.goals is None
    assert set(batch.tensors()) == {
        *("index", "tokens", "token_count", "start", "heading", "goal", "path", "path_length")
    }


def test_goals_are_laid_out_with_the_end_of_the_path_first(world, records):
    episodes = bound(world, with_goals(records))
    assert names(world, episodes.goals) == [["a4", "a3", "a4"], ["a4"] * 3, ["b0", "b3", "b2"], ["g4"] * 3]
    assert torch.equal(episodes.goal, episodes.path[:, -1])
    part = episodes.select(torch.tensor([2, 1])).to("cpu")
    assert names(world, part.goals) == [["b0", "b3", "b2"], ["a4"] * 3]
    batch = take(episodes, tokens(episodes), torch.tensor([2, 1]), width=8)
    assert torch.equal(batch.goals, part.goals)
    assert torch.equal(batch.tensors()["goals"], part.goals)


def test_goals_without_a_path_are_no_test_split(world, records):
    only = [replace(one, path=one.path[:1], goals=(one.path[-1],)) for one in records]
    episodes = bound(world, only)
    assert episodes.scored
    assert names(world, episodes.goal[:, None]) == [["a4"], ["a4"], ["b0"], ["g4"]]


@pytest.mark.parametrize(
    ("goals", "told"),
    [
        (("nowhere",), "instruction 10_0: viewpoint nowhere is not in the graph of scan alpha"),
        (("a3",), "instruction 10_0: its path ends at a4, which is none of its goals; add it to the goals, or give"),
    ],
)
def test_goals_that_do_not_fit(world, records, goals, told):
    with pytest.raises(DataError, match=told):
        bound(world, [replace(records[0], goals=goals), *records[1:]])


def test_teacher_distance_and_success_are_of_the_nearest_goal(world, records):
    """By hand: of each viewpoint, the goal with the fewest metres."""
    episodes, task = bound(world, with_goals(records)), TASKS["r2r"]
    members = torch.nonzero(world.scan_of == world.scan_of[episodes.start[2]]).flatten()
    one = episodes.select(torch.full((len(members),), 2))
    goals = [int(number) for number in one.goals[0]]
    slot, _ = task.teacher(world, members, task.begin_teacher(one))
    left = metres_to_goal(world, members[:, None], one)[:, 0]
    for place, here in enumerate(members.tolist()):
        away = [float(world.metres(torch.tensor(here), torch.tensor(goal))) for goal in goals]
        assert float(left[place]) == min(away)
        aim = goals[away.index(min(away))]
        assert int(slot[place]) == int(world.slot_toward(torch.tensor([here]), torch.tensor([aim])))
    assert torch.equal(task.arrived(world, members[:, None], one)[:, 0], left < 3.0)
    assert int(nearest(world, one.goals[:1, 0], one.goals[:1])) == goals[0]
    assert task.teacher_steps(world, episodes.start, episodes) >= 1


def tokens(episodes: Episodes) -> Tokens:
    return Tokens(torch.ones(len(episodes), 3, dtype=torch.long), torch.full((len(episodes),), 3))


def own(records):
    return [
        replace(one, extra={"floor": place, "weights": [0.5, place], "far": place > 1, "said": one.text[:2]})
        for place, one in enumerate(records)
    ]


def test_numbers_become_tensors_and_the_rest_stays(world, records):
    episodes = bound(world, own(records))
    extra = episodes.extra
    assert (extra["floor"].dtype, extra["floor"].tolist()) == (torch.int64, [0, 1, 2, 3])
    assert (extra["weights"].dtype, extra["weights"].tolist()) == (torch.float32, [[0.5, place] for place in range(4)])
    assert extra["far"].tolist() == [False, False, True, True]
    assert extra["said"] == tuple(text[:2] for text in episodes.texts)
    part = episodes.select(torch.tensor([3, 1])).select(torch.tensor([1, 0])).to("cpu")
    assert part.extra["floor"].tolist() == [1, 3]
    assert list(part.extra["said"]) == [episodes.texts[1][:2], episodes.texts[3][:2]]


def test_a_batch_carries_them(world, records):
    episodes = bound(world, own(records))
    batch = take(episodes, tokens(episodes), torch.tensor([2, 0]), width=8)
    assert list(batch.ids) == [episodes.ids[2], episodes.ids[0]]
    assert (batch.ids[1], len(batch.ids)) == (episodes.ids[0], 2)
    assert batch.extra["floor"].tolist() == [2, 0]
    assert list(batch.extra["said"]) == [episodes.texts[2][:2], episodes.texts[0][:2]]
    found = batch.tensors()
    assert {name for name in found if name.startswith("extra.")} == {"extra.floor", "extra.weights", "extra.far"}
    assert torch.equal(found["extra.weights"], batch.extra["weights"])
    cloned = batch.each(torch.clone)
    assert all(
        torch.equal(mine, its) and mine is not its
        for mine, its in zip(cloned.tensors().values(), found.values(), strict=True)
    )
    assert list(cloned.tensors()) == list(found)


def test_ids_are_looked_up_when_they_are_asked_for() -> None:
    """Nobody who does not ask waits for the device: the index is not read before."""

    class Watched(torch.Tensor):
        reads = 0

        def tolist(self) -> list[int]:
            Watched.reads += 1
            return [2, 0]

    picked = Picked("abc", torch.tensor([2, 0]).as_subclass(Watched))
    assert (len(picked), Watched.reads) == (2, 0)
    assert (list(picked), picked[0], Watched.reads) == (["c", "a"], "c", 1)


def test_a_recorded_update_cannot_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would replay the values of its recording."""
    picked = Extra(said=("a", "b")).rows(torch.tensor([1]))["said"]
    assert list(picked) == ["b"]
    for name in ("is_available", "is_current_stream_capturing"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    with pytest.raises(UsageError, match="lie on the host, where a recorded update cannot read; make them numbers in"):
        picked[0]


def test_a_field_that_nobody_gave() -> None:
    with pytest.raises(UnknownNameError, match="no user-defined field 'flor' in these episodes; did you mean floor"):
        Extra(floor=1)["flor"]


@pytest.mark.parametrize(
    ("extras", "told"),
    [
        ([{"a": 1}, {}], "instruction 10_1: lacks the field 'a', unlike 10_0; give every record"),
        ([{}, {"a": 1}], "instruction 10_1: has the field 'a', unlike 10_0; give every record"),
        (
            [{"a": [1, 2]}, {"a": [1]}],
            r"instruction 10_1: the field 'a' has the shape \[1\], where 10_0 has \[2\]; pad",
        ),
    ],
)
def test_fields_that_do_not_fit(world, records, extras, told):
    with pytest.raises(DataError, match=told):
        bound(world, [replace(one, extra=extra) for one, extra in zip(records, extras, strict=False)])


def test_viewpoints_as_fields(world, records, forget_plugins: Callable[[], None]):
    """A task lays out what numbers and lists of one length do not: viewpoints, padded."""

    class Landmarks(vln.R2R):
        name = "landmarks"
        wrong = 0

        def bind_extra(self, world, records):
            rows = [[world.find(one.scan, name) for name in one.extra["landmarks"]] for one in records]
            longest = max(map(len, rows))
            padded = torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
            return {"landmarks": padded[self.wrong :]}

    register_task(Landmarks)
    mine = [replace(one, extra={"landmarks": one.path[1:], "n": 2}) for one in records]
    episodes = bound(world, mine, task="landmarks")
    assert episodes.extra["n"].tolist() == [2] * 4
    found = [
        [world.viewpoints[number] for number in row if number >= 0] for row in episodes.extra["landmarks"].tolist()
    ]
    assert found == [list(one.path[1:]) for one in records]
    Landmarks.wrong = 1
    with pytest.raises(UsageError, match=r"bind_extra of the task landmarks gave 'landmarks' as a Tensor of 3; give a"):
        bound(world, mine, task="landmarks")


def test_they_are_read_from_a_file(tiny, world):
    path = tiny.folder.instruction_files("r2r")["train"]
    items = json.loads(path.read_text())
    for place, item in enumerate(items):
        item |= {"ends": item["path"][-2:], "floor": place}
    path.write_text(json.dumps(items))
    found = list(read_r2r(path, goals="ends", extra=("floor",)))
    assert [(one.goals, one.extra) for one in found[:3]] == [
        *[(("a3", "a4"), {"floor": 0})] * 2,
        (("b1", "b0"), {"floor": 1}),
    ]
    assert all(one.goals == () and one.extra == {} for one in read_r2r(path)), "unless they are asked for"
    del items[0]["floor"]
    items[1]["ends"] = "b0"
    path.write_text(json.dumps(items))
    with pytest.raises(DataError) as told:
        list(read_r2r(path, goals="ends", extra=("floor",)))
    lines = str(told.value).splitlines()
    assert len(lines) == 2
    assert "item 0 (path 10): 'floor' is missing; give it in every item" in lines[0]
    assert "item 1 (path 11): 'ends' is not a list of viewpoints" in lines[1]


def test_a_record_may_be_hashed() -> None:
    one = EpisodeRecord("1", "alpha", ("a0",), 0.0, "go", extra={"a": [1]})
    assert len({one, replace(one)}) == 1
