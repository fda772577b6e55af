"""Agents that walk the plain way: a row of the network each, a Python loop for what they see and where they go."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.plain.loop import AgentState, step_agent, teacher_slot
from benchmarks.plain.observations import PlainObserver
from vlnbert.navigator import Navigator, Step
from vlnbert.rollout.episodes import MAX_STEPS
from vlnbert.tasks.batches import MAX_TOKENS, Tokens
from vlnbert.tasks.episodes import Episodes
from vlnbert.world.world import level_view

WIDTH = MAX_TOKENS  # tokens of every instruction, however short
ROWS = 8  # that are evaluated together, as in the published code


class PlainAgents:
    """Rows that walk together."""

    def __init__(
        self, navigator: Navigator, observer: PlainObserver, tokens: Tensor, start: Tensor, heading: Tensor
    ) -> None:
        self.navigator, self.observer = navigator, observer
        self.instruction = navigator.encode(tokens, tokens != 0).uncached()
        self.hidden = self.instruction.state
        rows = zip(start.tolist(), level_view(heading).tolist(), strict=True)
        self.states = [AgentState(viewpoint, view, ended=False) for viewpoint, view in rows]

    @property
    def live(self) -> list[bool]:
        return [not state.ended for state in self.states]

    def decide(self) -> Step:
        """Observe and take a step of the network, all rows together."""
        observation = self.observer.batch([self.observer.observe(state) for state in self.states])
        step = self.navigator.step(self.hidden, self.instruction, observation)
        self.hidden, self.instruction = step.state, step.instruction
        return step

    def teachers(self, goals: Sequence[int]) -> list[int]:
        """The slot that starts each row's shortest path."""
        lists = self.observer.lists
        return [teacher_slot(lists, state, goal) for state, goal in zip(self.states, goals, strict=True)]

    def move(self, slots: Sequence[int]) -> None:
        lists = self.observer.lists
        self.states = [step_agent(lists, state, slot) for state, slot in zip(self.states, slots, strict=True)]


@dataclass(frozen=True)
class Trajectories:
    """Where agents went. The last viewpoint repeats once an agent has stopped."""

    viewpoint: Tensor  # [agent, time]
    length: Tensor  # [agent] viewpoints before it stopped, the start included


@torch.no_grad()
def walk_plainly(
    navigator: Navigator, observer: PlainObserver, episodes: Episodes, tokens: Tokens, limit: int = MAX_STEPS
) -> Trajectories:
    """Let a navigator walk all episodes of a split greedily, a few at a time in their order."""
    device = observer.device
    whole, numbers = pad(tokens.ids, (0, WIDTH - tokens.ids.shape[1])), torch.arange(len(episodes), device=device)
    visited, lengths = list[list[int]](), list[int]()
    for rows in torch.split(numbers, ROWS):
        start, heading = episodes.start[rows], episodes.heading[rows]
        agents = PlainAgents(navigator, observer, tokens=whole[rows], start=start, heading=heading)
        for walked in _walk(agents, limit):
            lengths.append(len(walked))
            visited.append(walked + walked[-1:] * (limit + 1 - len(walked)))
    return Trajectories(torch.tensor(visited, device=device), torch.tensor(lengths, device=device))


def _walk(agents: PlainAgents, limit: int) -> list[list[int]]:
    """The viewpoints that each row visits until it stops or has taken `limit` steps."""
    visited = [[state.viewpoint] for state in agents.states]
    for _ in range(limit):
        agents.move(agents.decide().logits.argmax(dim=1).tolist())
        for walked, state in zip(visited, agents.states, strict=True):
            if not state.ended:
                walked.append(state.viewpoint)
        if not any(agents.live):
            break
    return visited
