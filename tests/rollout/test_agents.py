"""The contract of agents: who is one, how one is found and made, what it is told and what it must give."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from vlnbert.environment.environment import Environment, Observation
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.registry import Registry
from vlnbert.rollout import agents
from vlnbert.rollout.agents import AGENTS, Agent, AgentFactory, EpisodeBatch, as_agent, find_agent, names_objects
from vlnbert.rollout.baselines import Random, Stop
from vlnbert.rollout.episodes import RowMemory, run_episodes


class Forward(Agent):
    """Takes the first candidate so often, then stops."""

    def __init__(self, steps: int = 2) -> None:
        self.steps = steps

    def begin(self, batch: EpisodeBatch) -> int:
        return 0

    def act(self, observation: Observation, memory: int) -> tuple[Tensor, int]:
        return torch.full_like(observation.state.viewpoint, int(memory < self.steps)), memory + 1


class Stranger:
    """Keeps the contract, and knows nothing of us."""

    oracle = True

    def begin(self, batch: EpisodeBatch) -> None: ...

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        return torch.zeros(len(observation.facing), dtype=torch.long), memory

    def name_object(self, observation: Observation, memory: None) -> Tensor:
        return torch.zeros(len(observation.facing), dtype=torch.long)


def starting(environment: Environment, rows: int = 3) -> EpisodeBatch:
    state = environment.reset(torch.arange(rows), torch.zeros(rows))
    return EpisodeBatch(state, torch.zeros(rows, 0, dtype=torch.long), torch.arange(rows))


def test_whoever_keeps_the_contract_is_an_agent(environment: Environment) -> None:
    stop, stranger = as_agent(Stop()), as_agent(Stranger())
    assert isinstance(stop, Stop)
    assert (stranger.oracle, stranger.reads_tokens, names_objects(stranger)) == (True, True, True)
    assert (stop.oracle, stop.reads_tokens, names_objects(stop)) == (False, False, False)
    for agent in (stop, stranger):
        assert (run_episodes(environment, agent, starting(environment)).length == 1).all()


class Blind(Agent):
    def act(self, memory: object) -> object:  # type: ignore[override]
        return memory


def test_other_arguments_are_told_before_anyone_walks() -> None:
    with pytest.raises(
        UsageError, match=r"^Blind.act takes other arguments; it is called with \(observation, memory\)$"
    ):
        as_agent(Blind())


class OnlyBegins(Agent): ...


@pytest.mark.parametrize("thing", [object(), 3, None, OnlyBegins(), Forward, Stranger])
def test_others_are_none(thing: object) -> None:
    with pytest.raises(UsageError, match=r"is no agent; give an object with begin\(batch\) and act\(obs") as caught:
        as_agent(thing)
    assert "\n" not in str(caught.value)


def test_goals_are_told_to_oracles_alone(environment: Environment) -> None:
    with pytest.raises(UsageError, match="oracle = True"):
        starting(environment).require("goal")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "act gave a NoneType; it must give slots and memory"),
        (torch.zeros(3, dtype=torch.long), "act gave a Tensor; it must give slots and memory"),
        (([0, 0, 0], None), r"act gave a list; it must give int64 \[3\] on cpu"),
        ((torch.zeros(3), None), r"act gave float32 \[3\] on cpu; it must give int64 \[3\]"),
        ((torch.zeros(3, 1, dtype=torch.long), None), r"act gave int64 \[3, 1\] on cpu; it must give int64 \[3\]"),
        ((torch.tensor([0, -1, 0]), None), "act chose slot -1; slots are 0"),
        ((torch.tensor([0, 99, 0]), None), "act chose slot 99; slots are 0"),
    ],
)
def test_wrong_slots_are_one_line(environment: Environment, given: Any, expected: str) -> None:
    class Wrong(Agent):
        def act(self, observation: Observation, memory: None) -> Any:
            return given

    with pytest.raises(UsageError, match=f"^Wrong.{expected}") as caught:
        run_episodes(environment, Wrong(), starting(environment))
    assert "\n" not in str(caught.value)


def test_objects_are_named_at_the_stop_or_at_the_limit(environment: Environment) -> None:
    class Namer(Forward):
        def act(self, observation: Observation, memory: int) -> tuple[Tensor, int]:
            slot, memory = super().act(observation, memory)
            return torch.where(observation.state.viewpoint == 1, 0, slot), memory  # one row stops at once

        def name_object(self, observation: Observation, memory: int) -> Tensor:
            return observation.state.viewpoint * 10 + memory  # where it is asked, and after how many acts

    batch = starting(environment)
    for steps, limit in ((2, 9), (9, 2)):  # two steps, then a stop or the limit: the third act is the last
        walked = run_episodes(environment, Namer(steps), batch, max_steps=limit, name_objects=True)
        assert walked.named is not None
        for row, (where, length) in enumerate(zip(walked.viewpoint[:, -1].tolist(), walked.length, strict=True)):
            assert int(walked.named[row]) == where * 10 + int(length)
        assert walked.named[1] == 11
        assert walked.viewpoint.shape == (3, limit + 1)
    assert run_episodes(environment, Namer(), batch).named is None, "nobody asked"

    class Wrong(Namer):
        def name_object(self, observation: Observation, memory: int) -> Tensor:
            return torch.zeros(2)

    with pytest.raises(UsageError, match=r"Wrong.name_object gave float32 \[2\] on cpu; it must give int64 \[3\]"):
        run_episodes(environment, Wrong(), batch, name_objects=True)


def test_rows_that_stopped_leave_a_memory_that_lets_them(environment: Environment) -> None:
    """Each row stops after so many steps as its number; who stopped is asked no more, and the walks are the same."""

    class Memory(RowMemory):
        def __init__(self, left: Tensor, rows: Tensor | None = None) -> None:
            self.left, self.rows = left, rows

        def select(self, kept: Tensor) -> "Memory":
            return Memory(self.left[kept], kept if self.rows is None else self.rows[kept])

    class Counting(Agent):
        def __init__(self, leaves: bool) -> None:
            self.leaves, self.asked = leaves, list[int]()

        def begin(self, batch: EpisodeBatch) -> Any:
            return Memory(batch.index) if self.leaves else batch.index

        def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
            self.asked.append(len(observation.facing))
            left = memory.left if self.leaves else memory
            after = Memory(left - 1, memory.rows) if self.leaves else left - 1
            return (left > 0).long(), after

    leaving, staying = Counting(True), Counting(False)
    one, other = (run_episodes(environment, agent, starting(environment)) for agent in (leaving, staying))
    assert torch.equal(one.viewpoint, other.viewpoint)
    assert torch.equal(one.length, other.length)
    assert (leaving.asked, staying.asked) == ([3, 2, 1], [3, 3, 3])


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    """A registry that forgets what a test adds."""
    fresh: Registry[Any] = Registry("agent")
    for name in AGENTS:
        fresh.register(name, AGENTS[name])
    monkeypatch.setattr(agents, "AGENTS", fresh)
    return fresh


def test_agents_are_registered_and_made(registered: Registry[Any], environment: Environment) -> None:
    vln.register_agent("forward")(Forward)

    @vln.register_agent("seeded")
    def seeded(environment: Environment, seed: int) -> Agent:
        return Random(environment, seed)

    assert list(registered) == ["random", "stop", "shortest", "follow", "random-reverie", "forward", "seeded"]
    assert isinstance(find_agent("forward")(environment), Forward)
    made = find_agent("seeded")(environment, 5)
    assert isinstance(made, Random)
    assert made.seed == 5
    with pytest.raises(UnknownNameError, match="no agent 'forwrd'; did you mean forward"):
        find_agent("forwrd")
    with pytest.raises(UsageError, match="two agents are called 'random'"):
        vln.register_agent("random")(Forward)


def test_what_a_factory_asks_for_is_known(environment: Environment) -> None:
    with pytest.raises(UsageError, match="mine asks for weights; agents are made of some of these, or of nothing: env"):
        AgentFactory("mine", lambda weights: Forward())(environment)
    with pytest.raises(UsageError, match="a int is no agent"):
        AgentFactory("mine", lambda: 3)(environment)


def test_agents_are_found_in_files(tmp_path: Path, environment: Environment) -> None:
    path = tmp_path / "my_agents.py"
    path.write_text("from vlnbert.rollout.baselines import Stop\n\nclass Mine(Stop):\n    pass\n\nNUMBER = 3\n")
    found = find_agent(f"{path}:Mine")
    assert (found.name, type(found(environment)).__name__) == ("Mine", "Mine")
    for name, expected in {
        f"{path}:Mien": "no agent in .*my_agents.py called 'Mien'; did you mean Mine",
        f"{path}:NUMBER": "called 'NUMBER'; known: Mine",
        f"{path}": "is a file; say which class of it walks",
        f"{tmp_path / 'none.py'}:Mine": "no plugin at .*none.py",
        "no_such_module:Mine": "the plugin no_such_module cannot be imported",
        ":Mine": "no file or module in ':Mine'",
    }.items():
        with pytest.raises(vln.VlnbertError, match=expected) as caught:
            find_agent(name)
        assert "\n" not in str(caught.value)
