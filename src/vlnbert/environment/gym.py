"""One agent in one episode as a Gymnasium environment, by the same functions that walk thousands.

Importing this registers `vlnbert/R2R-v0` and `vlnbert/REVERIE-v0` for `gymnasium.make`, whose other arguments are those
of `vlnbert.data.gym.open_env`: data, split, features, wants, max_steps.
"""

from copy import copy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.environment.environment import NEIGHBOURS, Environment, State, shortest_path_teacher
from vlnbert.errors import UsageError
from vlnbert.tasks.splits import Split, target_index
from vlnbert.tasks.task import TASKS, metres_to_nearest
from vlnbert.world.objects import NONE, ObjectBank
from vlnbert.world.world import STOP, VIEWS

BONUS = 2.0  # for stopping at the goal; stopping elsewhere costs as much
ENTRY_POINT = "vlnbert.data.gym:open_env"

Seen = dict[str, NDArray[Any]]


class NavigationEnv(gymnasium.Env[Seen, np.int64]):
    """Follow an instruction through a house.

    Actions are slots: 0 stops, the others move to a neighbour; those that `choosable` does not mark lead nowhere. Where
    the task asks for an object there are more: `slots + n` stops and names the n-th object in view, counted from 0.

    The reward is the progress towards the goal in metres; on stopping 2 where the task calls that a success (within 3 m
    of the goal, in REVERIE where the target is visible), else -2; and 2 more for the right object. It is 0 throughout
    where the goal is withheld (test splits). `info` holds the instruction in words, its id, the distance left, the
    teacher's action and, where the task asks for an object, the names of those that are seen, in their order, and the
    id of the one that was named. `reset(options={"episode": n})` picks an episode; otherwise one is drawn at random.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  # Gymnasium's own convention

    def __init__(
        self,
        environment: Environment,
        split: Split,
        vocabulary: int,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """`vocabulary` is the number of word pieces. The environment shows objects where the task asks for one.

        Optional fields are those of `Environment.showing`: neighbours; panorama, with panorama_direction.
        """
        self.episodes, self.tokens, self.task = split.episodes, split.tokens, TASKS[split.episodes.task]
        self.environment = copy(environment.for_task(self.task.name))
        self.bank = None if self.environment.object_bank is None else replace(self.environment.object_bank, fixed=True)
        # Gymnasium needs observations of one width everywhere.
        self.environment.object_bank = self.bank
        self.targets = None if self.bank is None else target_index(self.bank.object_table, self.episodes)
        self.slots, self.render_mode = self.environment.world.slots, render_mode
        self.max_steps = max_steps or self.task.max_steps
        self.action_space = Discrete(self.slots + (0 if self.bank is None else self.bank.widest))
        self.observation_space = _space(self.environment, vocabulary, self.task.max_tokens, self.bank)
        self._episode, self._steps, self._state = 0, 0, State(*torch.ones(3, 1, dtype=torch.long))
        self._named: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode: the one at the place in the split given in `options`, or a random one."""
        super().reset(seed=seed)
        chosen = (options or {}).get("episode")
        self._episode = int(self.np_random.integers(len(self.episodes)) if chosen is None else chosen)
        if not 0 <= self._episode < len(self.episodes):
            raise UsageError(f"no episode {self._episode}; the split has {len(self.episodes)}, counted from 0")
        rows = slice(self._episode, self._episode + 1)
        self._steps, self._named = 0, None
        self._state = self.environment.reset(self.episodes.start[rows], self.episodes.heading[rows])
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take a slot, or name an object; stopping terminates the episode, the step limit truncates it."""
        if not self.action_space.contains(action):
            most = int(self.action_space.n) - 1  # type: ignore[attr-defined]  # it is discrete
            raise UsageError(f"no action {action}; choose a whole number from 0 to {most}")
        if self._state.ended:
            raise UsageError("the episode has ended; begin another with reset()")
        before, named = self._distance(), int(action) - self.slots
        if self.bank is not None and named >= 0:
            (self._named,) = self.bank.object_table.ids_at(self._state.viewpoint, torch.tensor([named]))
        self._state = self.environment.step(self._state, torch.tensor([STOP if named >= 0 else int(action)]))
        self._steps += 1
        ended, reward = bool(self._state.ended), 0.0
        if ended and self.episodes.scored:
            one = self.episodes.select(torch.tensor([self._episode]))
            arrived = bool(self.task.arrived(self.environment.world, self._state.viewpoint[:, None], one))
            right = self._named is not None and self._named == one.targets[0]
            reward = (BONUS if arrived else -BONUS) + (BONUS if right else 0.0)
        elif self.episodes.scored:
            reward = before - self._distance()
        return self._observe(), reward, ended, not ended and self._steps >= self.max_steps, self._info()

    def render(self) -> str | None:
        """The position of the agent and its actions, as text."""
        if self.render_mode != "ansi":
            return None
        world, here = self.environment.world, int(self._state.viewpoint)
        lines = [f"{self.episodes.texts[self._episode].strip()}", f"at {world.viewpoints[here]}, 0: stop here"]
        for slot in range(1, int(world.choices[here])):
            name = world.viewpoints[int(world.neighbour[here, slot])]
            lines.append(f"  {slot}: go to {name}, heading {np.degrees(float(world.heading[here, slot])):.0f} degrees")
        lines += [f"  {self.slots + place}: stop and name the {name}" for place, name in enumerate(self._names())]
        return "\n".join(lines)

    def _observe(self) -> Seen:
        seen = self.environment.observe(self._state)
        tokens = np.zeros(self.task.max_tokens, dtype=np.int64)
        tokens[: self.tokens.ids.shape[1]] = self.tokens.ids[self._episode].numpy()
        found: dict[str, Tensor] = {"choosable": seen.choosable, "direction": seen.direction, "facing": seen.facing}
        if seen.features is not None:
            found["features"] = seen.features
        if seen.neighbours is not None:
            found["neighbours"] = seen.neighbours
        if seen.panorama is not None:
            found |= {"panorama": seen.panorama.features, "panorama_direction": seen.panorama.direction}
        if (objects := seen.visible_objects) is not None:
            found |= {"object_present": objects.present, "object_direction": objects.direction}
            found |= {"object_position": objects.position}
            found |= {"object_features": objects.features} if objects.features.shape[-1] else {}
        plain = {name: value[0].numpy() for name, value in found.items()}
        return {"tokens": tokens, **{n: v.astype(np.int8) if v.dtype == np.bool_ else v for n, v in plain.items()}}

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "id": self.episodes.ids[self._episode],
            "instruction": self.episodes.texts[self._episode],
        }
        if self.bank is not None:
            info |= {"objects": self._names(), "named": self._named}
        if not self.episodes.scored:
            return info
        # The teacher takes the shortest path to the goal; there it names the target, if that is seen.
        slot = int(shortest_path_teacher(self.environment.world, self._state, self._goals()))
        target = NONE if self.targets is None else int(self.targets[self._episode])
        teacher = self.slots + target if slot == STOP and target != NONE else slot
        return {**info, "distance": self._distance(), "teacher": teacher}

    def _names(self) -> tuple[str, ...]:
        """Names of the objects in view, in their order."""
        if self.bank is None:
            return ()
        table, here = self.bank.object_table, int(self._state.viewpoint)
        rows = range(int(table.first[here]), int(table.first[here] + table.count[here]))
        return tuple(table.names[int(table.name[row])].replace("#", " ") for row in rows)

    def _distance(self) -> float:
        return float(metres_to_nearest(self.environment.world, self._state.viewpoint, self._goals()))

    def _goals(self) -> Tensor:
        """[1, any] the goals of this episode."""
        several = self.episodes.goal[:, None] if self.episodes.goals is None else self.episodes.goals
        return several[self._episode, None]


def _space(environment: Environment, vocabulary: int, tokens: int, objects: ObjectBank | None) -> gymnasium.Space[Any]:
    slots, views, around = environment.world.slots, environment.view_bank, environment.panorama_bank
    spaces: dict[str, gymnasium.Space[Any]] = {
        "tokens": Box(0, vocabulary - 1, (tokens,), np.int64),
        "choosable": MultiBinary(slots),
        "direction": Box(-1, 1, (slots, 4), np.float32),
        "facing": Box(-1, 1, (4,), np.float32),
    }
    if views is not None and views.width:
        spaces["features"] = Box(-np.inf, np.inf, (slots, views.width), np.float32)
    if NEIGHBOURS in environment.wants:
        spaces["neighbours"] = Box(0, len(environment.world) - 1, (slots,), np.int64)
    if around is not None:
        spaces["panorama"] = Box(-np.inf, np.inf, (VIEWS, around.width), np.float32)
        spaces["panorama_direction"] = Box(-1, 1, (VIEWS, 4), np.float32)
    if objects is not None:
        spaces["object_present"] = MultiBinary(objects.widest)
        spaces["object_direction"] = Box(-1, 1, (objects.widest, 4), np.float32)
        spaces["object_position"] = Box(0, 1, (objects.widest, 5), np.float32)
        if objects.width:
            spaces["object_features"] = Box(-np.inf, np.inf, (objects.widest, objects.width), np.float32)
    return Dict(spaces)


for _name, _task in {"vlnbert/R2R-v0": "r2r", "vlnbert/REVERIE-v0": "reverie"}.items():
    gymnasium.register(_name, entry_point=ENTRY_POINT, kwargs={"task": _task})
