"""Training the plain way: two rollouts an update, one that follows the teacher and one that explores."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.utils import clip_grad_norm_

from benchmarks.plain.agents import WIDTH, PlainAgents
from benchmarks.plain.observations import PlainObserver
from benchmarks.plain.rewards import PlainRewards
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.losses import actor_critic_loss, discounted_returns, teacher_cross_entropy
from vlnbert.learning.optimisers import LearningRate
from vlnbert.navigator import Navigator
from vlnbert.rollout.episodes import MAX_STEPS
from vlnbert.rollout.mixed import gumbel, keys
from vlnbert.tasks.batches import Batch, TrainingBatches, take
from vlnbert.tasks.splits import Split
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import STOP, World


class PlainTraining:
    """Updates of a navigator on the batches that a `Trainer` with the same settings would take from one split."""

    def __init__(
        self, navigator: Navigator, world: World, bank: FeatureBank, split: Split, config: TrainConfig
    ) -> None:
        self.navigator, self.world, self.split, self.config = navigator, world, split, config
        self.observer = PlainObserver(world, bank, navigator.config.angle_width)
        self.rewards = PlainRewards(world, config.rewards)
        self.batches = TrainingBatches(split.tokens.count.cpu(), config.batch, config.seed)
        self.max_steps = config.max_steps or MAX_STEPS
        self.optimiser = torch.optim.AdamW(
            navigator.parameters(), config.learning_rate, weight_decay=config.weight_decay
        )
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
        clip_grad_norm_(self.clipped, config.grad_clip)
        for group in self.optimiser.param_groups:
            group["lr"] = LearningRate(config).at(iteration)
        self.optimiser.step()
        return loss.detach()

    def loss(self, number: int) -> Tensor:
        """That of a batch: its first half follows the teacher, its second half explores."""
        rows = self.batches[number].to(self.world.device)
        taught, tried = (take(self.split.episodes, self.split.tokens, half, WIDTH) for half in rows.chunk(2))
        return self._follow(taught) + self._explore(tried, keys(self.config.seed, number, tried.index))

    def _follow(self, batch: Batch) -> Tensor:
        """The loss of rows that follow the teacher (teacher forcing)."""
        agents, goals = self._begin(batch), batch.goal.tolist()
        loss = torch.zeros((), device=self.world.device)
        for _ in range(self.max_steps):
            live, teachers = agents.live, agents.teachers(goals)
            loss = loss + self._imitation(agents.decide().logits, teachers, live, self.config.objective.imitation)
            agents.move(teachers)
            if not any(agents.live):
                break
        return loss

    def _explore(self, batch: Batch, key: Tensor) -> Tensor:
        """The loss of rows that sample what to do (A2C, and student forcing where the objective has it)."""
        agents, goals, objective = self._begin(batch), batch.goal.tolist(), self.config.objective
        paths = [path[:length] for path, length in zip(batch.path.tolist(), batch.path_length.tolist(), strict=True)]
        starts = [state.viewpoint for state in agents.states]
        rewards = [self.rewards.begin(start, path) for start, path in zip(starts, paths, strict=True)]
        record, student_forcing = ExplorationRecord(), torch.zeros((), device=self.world.device)
        for noise in gumbel(key, self.max_steps, self.world.slots):
            live, teachers, step = agents.live, agents.teachers(goals), agents.decide()
            slot = (step.logits.detach() + noise[:, : step.logits.shape[1]]).argmax(dim=1)
            slots = [taken if alive else STOP for taken, alive in zip(slot.tolist(), live, strict=True)]
            agents.move(slots)
            moved = zip(rewards, slots, agents.states, strict=True)
            record.add(
                policy=Categorical(logits=step.logits, validate_args=False),  # to validate is to wait for the device
                slot=slot,
                value=self.navigator.value(step.state),
                reward=[episode.step(slot, state.viewpoint) for episode, slot, state in moved],
                live=live,
            )
            if objective.student_forcing:
                student_forcing = student_forcing + self._imitation(
                    step.logits, teachers, live, objective.student_forcing
                )
            if not any(agents.live):
                break
        expected = self.navigator.value(agents.decide().state)
        ended = torch.tensor([not alive for alive in agents.live], device=self.world.device)
        discount, value, entropy = objective.discount, objective.value, objective.entropy
        return student_forcing + record.loss(expected, ended, discount=discount, value=value, entropy=entropy)

    def _begin(self, batch: Batch) -> PlainAgents:
        return PlainAgents(self.navigator, self.observer, tokens=batch.tokens, start=batch.start, heading=batch.heading)

    def _imitation(self, logits: Tensor, teachers: Sequence[int], live: Sequence[bool], weight: float) -> Tensor:
        """One step's imitation of the teacher, by those who have not stopped."""
        target = torch.tensor([teachers], device=logits.device)
        weights = weight * torch.tensor([live], device=logits.device)
        return (teacher_cross_entropy(logits[None], target) * weights).sum() / (self.config.batch // 2)


class ExplorationRecord:
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
        chosen, entropies, values = (torch.stack(column) for column in (self.chosen, self.entropy, self.value))
        return actor_critic_loss(chosen, entropies, values, returns, live, value, entropy).total
