"""One agent in one episode, as Gymnasium knows it: a thin front over the same functions that walk thousands.

Importing this registers `vlnbert/R2R-v0` and `vlnbert/REVERIE-v0` for `gymnasium.make`.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.errors import UsageError
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.episodes import load_episodes
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import MAX_TOKENS, load_tokenizer, piece_count, tokenise
from vlnbert.world.build import open_world
from vlnbert.world.sights import open_features

SUCCESS = 3.0  # metres
BONUS = 2.0  # for stopping there; the same is lost for stopping elsewhere

Seen = dict[str, NDArray[Any]]


class NavigationEnv(gymnasium.Env[Seen, np.int64]):
    """Follow an instruction through a house.

    Actions are slots: 0 stops, the others move to a neighbour; those that `choosable` does not mark lead nowhere. The
    reward is the progress towards the goal in metres, and on stopping 2 within 3 m of it, else -2; it is 0 throughout
    where the goal is withheld (test splits). `info` holds the instruction in words, its id, the distance left and the
    teacher's action. `reset(options={"episode": n})` picks an episode; otherwise one is drawn at random.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  # Gymnasium's own convention

    def __init__(
        self,
        data: Path | str,
        task: str = "r2r",
        split: str = "train",
        features: Path | str | None = None,
        max_steps: int = 15,
        render_mode: str | None = None,
    ) -> None:
        folder = open_folder(data)
        world = open_world(folder)
        bank = None if features is None else open_features(world, Path(features))
        self.environment = Environment(world, bank)
        self.episodes = load_episodes(folder, world, task, split)
        tokenizer = load_tokenizer(folder.vocabulary)
        self.tokens = tokenise(self.episodes, tokenizer, TASKS[task].file(folder, split))
        self.max_steps, self.render_mode = max_steps, render_mode
        self.action_space = Discrete(world.slots)
        self.observation_space = _space(world.slots, piece_count(tokenizer), 0 if bank is None else bank.width)
        self._episode, self._steps, self._state = 0, 0, State(*torch.ones(3, 1, dtype=torch.long))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode: the one that `options` names by its place in the split, or any."""
        super().reset(seed=seed)
        chosen = (options or {}).get("episode")
        self._episode = int(self.np_random.integers(len(self.episodes)) if chosen is None else chosen)
        if not 0 <= self._episode < len(self.episodes):
            raise UsageError(f"no episode {self._episode}; the split has {len(self.episodes)}, counted from 0")
        rows = slice(self._episode, self._episode + 1)
        self._steps = 0
        self._state = self.environment.reset(self.episodes.start[rows], self.episodes.heading[rows])
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take a slot; stopping terminates the episode, the step limit truncates it."""
        if not self.action_space.contains(action):
            raise UsageError(f"no action {action}; choose a whole number from 0 to {self.environment.world.slots - 1}")
        if self._state.ended:
            raise UsageError("the episode has ended; begin another with reset()")
        before = self._distance()
        self._state = self.environment.step(self._state, torch.tensor([int(action)]))
        self._steps += 1
        after, ended = self._distance(), bool(self._state.ended)
        reward = (BONUS if after < SUCCESS else -BONUS) if ended else before - after
        reward = reward if self.episodes.scored else 0.0
        return self._observe(), reward, ended, not ended and self._steps >= self.max_steps, self._info()

    def render(self) -> str | None:
        """Where the agent is and what it may do, in words."""
        if self.render_mode != "ansi":
            return None
        world, here = self.environment.world, int(self._state.viewpoint)
        lines = [f"{self.episodes.texts[self._episode].strip()}", f"at {world.viewpoints[here]}, 0: stop here"]
        for slot in range(1, int(world.choices[here])):
            name = world.viewpoints[int(world.neighbour[here, slot])]
            lines.append(f"  {slot}: go to {name}, heading {np.degrees(float(world.heading[here, slot])):.0f} degrees")
        return "\n".join(lines)

    def _observe(self) -> Seen:
        seen, rows = self.environment.observe(self._state), self._episode
        tokens = np.zeros(MAX_TOKENS, dtype=np.int64)
        tokens[: self.tokens.ids.shape[1]] = self.tokens.ids[rows].numpy()
        observation: Seen = {
            "tokens": tokens,
            "choosable": seen.choosable[0].numpy().astype(np.int8),
            "direction": seen.direction[0].numpy(),
            "facing": seen.facing[0].numpy(),
        }
        if seen.features is not None:
            observation["features"] = seen.features[0].numpy()
        return observation

    def _info(self) -> dict[str, Any]:
        info = {"id": self.episodes.ids[self._episode], "instruction": self.episodes.texts[self._episode]}
        if not self.episodes.scored:
            return info
        goal = self.episodes.goal[self._episode]
        teacher = int(shortest_path_teacher(self.environment.world, self._state, goal))
        return {**info, "distance": self._distance(), "teacher": teacher}

    def _distance(self) -> float:
        return float(self.environment.world.metres(self._state.viewpoint, self.episodes.goal[self._episode]))


def _space(slots: int, vocabulary: int, width: int) -> gymnasium.Space[Any]:
    spaces: dict[str, gymnasium.Space[Any]] = {
        "tokens": Box(0, vocabulary - 1, (MAX_TOKENS,), np.int64),
        "choosable": MultiBinary(slots),
        "direction": Box(-1, 1, (slots, 4), np.float32),
        "facing": Box(-1, 1, (4,), np.float32),
    }
    if width:
        spaces["features"] = Box(-np.inf, np.inf, (slots, width), np.float32)
    return Dict(spaces)


for _name, _task in {"vlnbert/R2R-v0": "r2r", "vlnbert/REVERIE-v0": "reverie"}.items():
    gymnasium.register(_name, entry_point="vlnbert.environment.gym:NavigationEnv", kwargs={"task": _task})
