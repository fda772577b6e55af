"""The plain way to walk and to learn, that of the published code: a rival with the same network and the same sums.

Instructions are padded to the task's limit, and their keys and values projected anew at every step. Observations,
teachers and rewards are made one agent after the other. The rows that follow the teacher and those that explore are
rolled out apart, each with a reading of its own, and go on until all of their rows have stopped: who has stopped
earlier goes along. Everything is in float32, and nothing is recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import pad
from torch.nn.utils import clip_grad_norm_

from vlnbert.benchmarks.plain_rewards import Purses
from vlnbert.benchmarks.plain_sights import Eyes
from vlnbert.benchmarks.world import Place, step_one, teach_one
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.losses import actor_critic_loss, imitation_loss
from vlnbert.learning.returns import discounted_returns
from vlnbert.navigator import Navigator, Step
from vlnbert.rollout.noise import gumbel, keys
from vlnbert.rollout.walk import LIMIT
from vlnbert.tasks.batches import Batch, TrainingBatches, take
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import LIMITS, Tokens
from vlnbert.world.banks import FeatureBank
from vlnbert.world.geometry import level_view
from vlnbert.world.world import STOP, World

WIDTH = LIMITS["r2r"]  # tokens of every instruction, however short
ROWS = 8  # that are evaluated together, as there


class Agents:
    """Rows that walk together."""

    def __init__(self, navigator: Navigator, eyes: Eyes, tokens: Tensor, start: Tensor, heading: Tensor) -> None:
        self.navigator, self.eyes = navigator, eyes
        self.instruction = navigator.encode(tokens, tokens != 0).uncached()
        self.hidden = self.instruction.state
        rows = zip(start.tolist(), level_view(heading).tolist(), strict=True)
        self.places = [Place(viewpoint, view, ended=False) for viewpoint, view in rows]

    @property
    def live(self) -> list[bool]:
        return [not place.ended for place in self.places]

    def decide(self) -> Step:
        """Look around and take a step of the network, all rows together."""
        observation = self.eyes.observation([self.eyes.look(place) for place in self.places])
        step = self.navigator.step(self.hidden, self.instruction, observation)
        self.hidden, self.instruction = step.state, step.instruction
        return step

    def teachers(self, goals: Sequence[int]) -> list[int]:
        """The slot that starts each row's shortest path."""
        return [teach_one(self.eyes.houses, place, goal) for place, goal in zip(self.places, goals, strict=True)]

    def move(self, slots: Sequence[int]) -> None:
        self.places = [step_one(self.eyes.houses, place, slot) for place, slot in zip(self.places, slots, strict=True)]


class PlainTraining:
    """Updates of a navigator on the batches that a `Trainer` with the same settings would take from one split."""

    def __init__(
        self, navigator: Navigator, world: World, bank: FeatureBank, split: Split, config: TrainConfig
    ) -> None:
        self.navigator, self.world, self.split, self.config = navigator, world, split, config
        self.eyes, self.purses = Eyes(world, bank, navigator.config.angle_width), Purses(world, config.rewards)
        self.batches = TrainingBatches(split.tokens.count.cpu(), config.batch, config.seed)
        self.optimiser = torch.optim.AdamW(navigator.parameters(), config.rate, weight_decay=config.weight_decay)
        critic = set(navigator.critic.parameters())
        self.clipped = [weight for weight in navigator.parameters() if weight not in critic]

    def advance(self, iteration: int) -> Tensor:
        """One update; its loss, that of the last batch where several make one."""
        config, loss = self.config, torch.zeros(())
        self.navigator.train()
        self.optimiser.zero_grad()
        for part in range(config.accumulate):
            loss = self.loss(iteration * config.accumulate + part)
            torch.autograd.backward(loss / config.accumulate)
        clip_grad_norm_(self.clipped, config.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = config.rate_at(iteration)
        self.optimiser.step()
        return loss.detach()

    def loss(self, number: int) -> Tensor:
        """That of a batch: its first half follows the teacher, its second half explores."""
        rows = self.batches[number].to(self.world.device)
        taught, tried = (take(self.split.episodes, self.split.tokens, half, WIDTH) for half in rows.chunk(2))
        return self._imitate(taught) + self._explore(tried, keys(self.config.seed, number, tried.index))

    def _imitate(self, batch: Batch) -> Tensor:
        agents, goals = self._begin(batch), batch.goal.tolist()
        loss = torch.zeros((), device=self.world.device)
        for _ in range(self.config.limit):
            live, teachers = agents.live, agents.teachers(goals)
            loss = loss + self._lesson(agents.decide().logits, teachers, live, self.config.objective.imitation)
            agents.move(teachers)
            if not any(agents.live):
                break
        return loss

    def _explore(self, batch: Batch, key: Tensor) -> Tensor:
        agents, goals, objective = self._begin(batch), batch.goal.tolist(), self.config.objective
        paths = [path[:length] for path, length in zip(batch.path.tolist(), batch.path_length.tolist(), strict=True)]
        purses = [self.purses.open(place.viewpoint, path) for place, path in zip(agents.places, paths, strict=True)]
        record, guidance = Record(), torch.zeros((), device=self.world.device)
        for noise in gumbel(key, self.config.limit, self.world.slots):
            live, teachers, step = agents.live, agents.teachers(goals), agents.decide()
            slot = (step.logits.detach() + noise[:, : step.logits.shape[1]]).argmax(dim=1)
            slots = [taken if alive else STOP for taken, alive in zip(slot.tolist(), live, strict=True)]
            agents.move(slots)
            moved = zip(purses, slots, agents.places, strict=True)
            record.add(
                policy=Categorical(logits=step.logits, validate_args=False),  # to validate is to wait for the device
                slot=slot,
                value=self.navigator.value(step.state),
                reward=[purse.earn(slot, place.viewpoint) for purse, slot, place in moved],
                live=live,
            )
            if objective.guidance:
                guidance = guidance + self._lesson(step.logits, teachers, live, objective.guidance)
            if not any(agents.live):
                break
        expected = self.navigator.value(agents.decide().state)
        ended = torch.tensor([not alive for alive in agents.live], device=self.world.device)
        return guidance + record.loss(expected, ended, objective.discount, objective.value, objective.entropy)

    def _begin(self, batch: Batch) -> Agents:
        return Agents(self.navigator, self.eyes, batch.tokens, batch.start, batch.heading)

    def _lesson(self, logits: Tensor, teachers: Sequence[int], live: Sequence[bool], weight: float) -> Tensor:
        """One step's imitation of the teacher, by those who have not stopped."""
        target = torch.tensor([teachers], device=logits.device)
        weights = weight * torch.tensor([live], device=logits.device)
        return imitation_loss(logits[None], target, weights, self.config.batch // 2)


class Record:
    """What the exploring rows did, a list entry for each step."""

    def __init__(self) -> None:
        self.chosen: list[Tensor] = []  # [row] log-probability of the choice
        self.entropy: list[Tensor] = []
        self.value: list[Tensor] = []
        self.reward: list[list[float]] = []
        self.live: list[list[bool]] = []

    def add(
        self, policy: Categorical, slot: Tensor, value: Tensor, reward: Sequence[float], live: Sequence[bool]
    ) -> None:
        self.chosen.append(policy.log_prob(slot))  # type: ignore[no-untyped-call]
        self.entropy.append(policy.entropy())  # type: ignore[no-untyped-call]
        self.value.append(value)
        self.reward.append(list(reward))
        self.live.append(list(live))

    def loss(self, expected: Tensor, ended: Tensor, discount: float, value: float, entropy: float) -> Tensor:
        """A2C over all steps; `expected` [row] stands in for what those who have not ended would still earn."""
        live = torch.tensor(self.live, device=expected.device)
        reward = torch.tensor(self.reward, device=expected.device)
        returns = discounted_returns(reward, live, expected, ended, discount)
        chosen, surprise, values = (torch.stack(column) for column in (self.chosen, self.entropy, self.value))
        return actor_critic_loss(chosen, surprise, values, returns, live, value, entropy).total


@dataclass(frozen=True)
class Tracks:
    """Where agents went. The last viewpoint repeats once an agent has stopped."""

    viewpoint: Tensor  # [agent, time]
    length: Tensor  # [agent] viewpoints before it stopped, the start included


@torch.no_grad()
def walk_plainly(navigator: Navigator, eyes: Eyes, episodes: Episodes, tokens: Tokens, limit: int = LIMIT) -> Tracks:
    """Let a navigator walk all episodes of a split greedily, a few at a time in their order."""
    whole, numbers = pad(tokens.ids, (0, WIDTH - tokens.ids.shape[1])), torch.arange(len(episodes), device=eyes.device)
    visited, lengths = list[list[int]](), list[int]()
    for rows in torch.split(numbers, ROWS):
        agents = Agents(navigator, eyes, whole[rows], episodes.start[rows], episodes.heading[rows])
        for walked in _walk(agents, limit):
            lengths.append(len(walked))
            visited.append(walked + walked[-1:] * (limit + 1 - len(walked)))
    return Tracks(torch.tensor(visited, device=eyes.device), torch.tensor(lengths, device=eyes.device))


def _walk(agents: Agents, limit: int) -> list[list[int]]:
    """The viewpoints that each row visits until it stops or has taken `limit` steps."""
    visited = [[place.viewpoint] for place in agents.places]
    for _ in range(limit):
        agents.move(agents.decide().logits.argmax(dim=1).tolist())
        for walked, place in zip(visited, agents.places, strict=True):
            if not place.ended:
                walked.append(place.viewpoint)
        if not any(agents.live):
            break
    return visited
