"""The contract of agents: baselines, navigators that are evaluated or learn, and external ones.

The loop (`run_episodes`) observes and the agent chooses, so that an agent needs neither an environment nor a world: it
finds where it is in `observation.state`, and what else it `wants` to see beside that. Rows that have stopped cost a
network time on the CPU: an agent whose memory is a `RowMemory` gets and answers for the others only. So one contract
serves all at full speed.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any, Literal

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, Observation, State
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.external import ExternalCall, is_ours, lent
from vlnbert.features.objects import Texts
from vlnbert.plugins import load_plugin
from vlnbert.registry import Registry, by_name
from vlnbert.tasks.episodes import Extra
from vlnbert.world.objects import NONE

METHODS = ("begin", "act", "name_object", "explain")  # of an agent
TRAITS = ("oracle", "reads_tokens", "sees_features", "wants", "goes_back", "hops_per_step")  # its other attributes
HOPS_PER_STEP = 3  # for agents that go back, the limit on hops is this times the limit on decisions


@dataclass(frozen=True)
class EpisodeBatch:
    """The information that agents may have when a batch of episodes begins; a row is an episode.

    Attributes:
        state: [row] where they start and what they face.
        tokens: [row, token] ids of word pieces, padded with 0; without columns for an agent that reads none.
        index: [row] their places in the split, on the CPU.
        texts: [row] the instructions as written; empty in training.
        goal: [row] viewpoint, for oracles alone: the end of the path, or the first of several goals.
        path: [row, hop] the described path, its last viewpoint repeated, for oracles alone.
        goals: [row, any] viewpoints at any of which the episode may end, the first one repeated as padding, for oracles
            alone; None where every episode of the split has one goal.
        ids: [row] the names of the instructions, read on the host, where a recorded update cannot.
        extra: Fields of one's own by name: tensors [row, ...]; values that are no numbers as a sequence, one a row.
    """

    state: State
    tokens: Tensor
    index: Tensor
    texts: tuple[str, ...] = ()
    goal: Tensor | None = None
    path: Tensor | None = None
    goals: Tensor | None = None
    ids: Sequence[str] = ()
    extra: Extra = field(default_factory=Extra)

    def require(self, name: Literal["goal", "path"]) -> Tensor:
        """The goal [row] or the described path [row, hop], which only oracles are given."""
        if (known := getattr(self, name)) is None:
            raise UsageError(f"no {name} is given; an agent that must know it says so: oracle = True")
        return known  # type: ignore[no-any-return]  # a tensor


@dataclass(frozen=True)
class Explanation:
    """An agent's account of its last choices, to be shown; nothing that it does depends on it."""

    probability: Tensor  # [row, slot] of each slot, as many as `observation.choosable` has
    language_weights: Tensor | None = None  # [row, token] attention to the tokens after the first, of agents that read
    object_probability: Tensor | None = None  # [row, object or more] of each of `observation.visible_objects`
    place_probability: Tensor | None = None  # [row, place] of going back, of agents that may
    places: Tensor | None = None  # [row, place] to which viewpoints; negative ones are padding

    def each(self, change: Callable[[Tensor], Tensor]) -> "Explanation":
        """Apply a function to each of its tensors."""
        parts: dict[str, Tensor | None] = vars(self)
        changed: Any = {name: None if part is None else change(part) for name, part in parts.items()}
        return Explanation(**changed)


class Agent:
    """Anything that chooses where to go, for many episodes at once; `vln.evaluate(MyAgent(), data, split)` scores it.

    `act` is all that it must have. What it knows of its episodes it keeps in its memory, which it is handed back, and
    nowhere else: batches come in any order. Nothing needs to wait for the device: tensors in, tensors out. Deriving
    from this class is not needed; an object that has `begin` and `act` is an agent as well.
    """

    oracle = False  # whether it is given goals and paths
    reads_tokens = True  # whether it is given tokens, for which the data must have a vocabulary
    sees_features = True  # whether it sees image features, which the data must then have
    wants: tuple[str, ...] = ()  # what else it sees, "neighbours" and "panorama": fields of `Observation`
    goes_back = False  # whether it may go to viewpoints seen before
    hops_per_step = HOPS_PER_STEP  # then an episode may have as many hops as decisions, times this
    guarded_methods: frozenset[str] = frozenset()  # its methods that are external, whose calls are guarded

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.guarded_methods = frozenset(name for name in METHODS if not is_ours(getattr(cls, name)))

    def begin(self, batch: EpisodeBatch) -> Any:
        """The memory with which these episodes start: anything, by default None."""
        return None

    def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
        """[row] what to choose, int64, and the memory for the next step.

        Slot 0 stops, for good; slot n goes to the n-th neighbour where `observation.choosable[row, n]`. Rows that have
        stopped still answer, and nothing they choose matters.

        An agent that says `goes_back = True` may also choose a viewpoint that it visited, or a neighbour of one that
        it did: the number of slots, `observation.choosable.shape[1]`, plus the viewpoint's number. It is walked there
        along the edges that it knows.
        """
        raise NotImplementedError

    def name_object(self, observation: Observation, memory: Any) -> Tensor:
        """[row] the object that each row would name here, int64: its place in `observation.visible_objects`.

        -1, or a place beyond the last, is none. Asked after `act`, with its observation and the memory it returned,
        when a row stops; a row that came to the limit acts once more where it is, and names one then.
        """
        return torch.full_like(observation.state.viewpoint, NONE)

    def explain(self, observation: Observation, memory: Any) -> Explanation | None:
        """How sure each row was of its choice, and what it attended to; None for an agent that cannot tell.

        Asked after `act`, with its observation and the memory it returned, where episodes are recorded to be shown.
        """
        return None


class _External(Agent):
    """An agent that does not derive from `Agent`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        for name in (*METHODS, *TRAITS):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.guarded_methods = frozenset(METHODS) & vars(self).keys()


def as_agent(thing: object) -> Agent:
    """Anything that keeps the contract, as an `Agent`."""
    if isinstance(thing, Agent) and type(thing).act is not Agent.act:
        _require_arguments(thing)
        return thing
    lacking = [name for name in ("begin", "act") if not callable(getattr(thing, name, None))]
    if isinstance(thing, type | Agent) or lacking:
        what = f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
        raise UsageError(f"{what} is no agent; give an object with begin(batch) and act(observation, memory)")
    _require_arguments(thing)
    return _External(thing)


def _require_arguments(agent: Any) -> None:
    for name, given in (("begin", ("batch",)), ("act", ("observation", "memory"))):
        try:
            signature(getattr(agent, name)).bind(*given)
        except TypeError:
            problem = f"{type(agent).__name__}.{name} takes other arguments"
            raise UsageError(f"{problem}; it is called with ({', '.join(given)})") from None
        except ValueError:
            # Methods written in C may have no signature.
            continue


def call_agent(agent: Agent, method: str, given: Any, *memory: Any) -> Any:
    """Call a method of an agent; an external one is given copies, so that writing into them moves nobody."""
    call = getattr(agent, method)
    if method not in agent.guarded_methods:
        return call(given, *memory)
    given = lent(given) if isinstance(given, EpisodeBatch) else replace(given, state=lent(given.state))
    with ExternalCall(f"the agent {agent_name(agent)}"):
        return call(given, *memory)


def agent_name(agent: Agent) -> str:
    """The name of an agent: that of its class."""
    return type(agent.inner if isinstance(agent, _External) else agent).__name__


def names_objects(agent: object) -> bool:
    """Whether an agent, or a class of agents, has a way of its own to name the object that it found."""
    method = getattr(agent, "name_object", None)
    return method is not None and getattr(method, "__func__", method) is not Agent.name_object


AGENTS: Registry[Callable[..., Any]] = Registry("agent")


def register_agent(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a class, or a function that makes an agent, so that `evaluate` and `--agent` know it by a name.

    It is called with those of `environment`, `seed` and `texts` (`data.texts`) that its parameters name.

    Args:
        name: What to call it by.
    """
    return by_name(AGENTS, name)


@dataclass(frozen=True)
class AgentFactory:
    """An agent that is yet to be made, by a class or a function."""

    name: str
    call: Callable[..., Any]

    @property
    def sees_features(self) -> bool:
        return bool(getattr(self.call, "sees_features", True))

    @property
    def names_objects(self) -> bool:
        """Whether it may: a function does not tell."""
        return not isinstance(self.call, type) or names_objects(self.call)

    def __call__(self, environment: Environment, seed: int = 0, texts: Texts | None = None) -> Agent:
        offered = {"environment": environment, "seed": seed, "texts": texts}
        parameters = signature(self.call).parameters
        named = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        for name, parameter in parameters.items():
            if name not in offered and parameter.default is Parameter.empty and parameter.kind not in named:
                remedy = f"agents are made of some of these, or of nothing: {', '.join(offered)}"
                raise UsageError(f"{self.name} asks for {name}; {remedy}")
        wanted = {name: value for name, value in offered.items() if name in parameters}
        with nullcontext() if is_ours(self.call) else ExternalCall(f"the agent {self.name}", environment.world):
            made = self.call(**wanted)
        return as_agent(made)


def find_agent(name: str) -> AgentFactory:
    """An agent by name: a registered one, or the class in a file or module, my.py:MyAgent or my.module:MyAgent."""
    where, colon, attribute = name.rpartition(":")
    if not colon:
        if name.endswith(".py"):
            raise UsageError(f"{name} is a file; say which class of it walks: {name}:MyAgent")
        return AgentFactory(name, AGENTS[name])
    if not where:
        raise UsageError(f"no file or module in '{name}'; write my.py:MyAgent")
    members = vars(load_plugin(where))
    if not callable(members.get(attribute)):
        classes = {key: value for key, value in members.items() if isinstance(value, type)}
        known = [key for key, value in classes.items() if value.__module__ == members["__name__"]]
        raise UnknownNameError(f"agent in {where} called", attribute, known)
    return AgentFactory(attribute, members[attribute])
