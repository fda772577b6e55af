"""Going back: a decision may be about a viewpoint seen before, and the agent walks there along the edges that it knows.

An agent knows the edges of the viewpoints at which it decided. The way to a place is the shortest along these, so that
all between its ends were visited before; the last hop may lead to a neighbour of one that was. Shapes follow the number
of the decision, never values, and nothing waits for the device.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.errors import UsageError
from vlnbert.world.world import World


@dataclass(frozen=True)
class Route:
    """The hops of one decision of each row; its last viewpoint and view repeat."""

    viewpoint: Tensor  # [row, hop] after each hop
    view: Tensor  # [row, hop]
    count: Tensor  # [row] how many are real: 0 for rows that stop or have stopped, 1 for those that stay


@dataclass(frozen=True)
class BacktrackGraph:
    """The part of their houses that rows which may go back know."""

    visited: Tensor  # [row, decision] where they decided so far, this place last
    metres: Tensor  # [row, decision, decision] between these along known edges
    used: Tensor  # [row] hops so far
    ways: tuple[Route, ...] = ()

    @classmethod
    def begin(cls, state: State) -> "BacktrackGraph":
        """That of rows which have not moved."""
        count, device = len(state.viewpoint), state.viewpoint.device
        metres = torch.zeros(count, 1, 1, dtype=torch.float64, device=device)
        return cls(state.viewpoint[:, None], metres, torch.zeros_like(state.viewpoint))

    def step(
        self, environment: Environment, state: State, choice: Tensor, most: int, name: str
    ) -> tuple[State, "BacktrackGraph"]:
        """Do what [row] was chosen: a slot, or the number of slots plus that of a viewpoint.

        The way there may have `most` [] hops less those used; a longer one, and one to a viewpoint that was not seen,
        leads nowhere. The latter is refused, where to look is not to wait, with the policy's `name`.
        """
        world = environment.world
        back = ~state.ended & (choice >= world.slots)
        place = torch.where(back, choice - world.slots, state.viewpoint)
        place = torch.where(place < len(world), place, state.viewpoint)
        stepped = environment.step(state, choice.masked_fill(back, 0))
        way, known = self._way(world, state, place)
        if back.device.type == "cpu":
            inside = choice < world.slots + len(world)
            _require_known(world, choice - world.slots, back & ~(known & inside), name)
        fits = back & known & (self.used + way.count <= most)
        turn = fits[:, None]
        way = Route(
            viewpoint=torch.where(turn, way.viewpoint, torch.where(back, state.viewpoint, stepped.viewpoint)[:, None]),
            view=torch.where(turn, way.view, torch.where(back, state.view, stepped.view)[:, None]),
            count=torch.where(fits, way.count.clamp(min=1), (back | ~stepped.ended).long()),
        )
        after = State(way.viewpoint[:, -1], way.view[:, -1], torch.where(back, state.ended, stepped.ended))
        return after, self._at(world, after.viewpoint, way)

    def _way(self, world: World, state: State, place: Tensor) -> tuple[Route, Tensor]:
        """The way to each place, and whether there is one along known edges."""
        last = _edges(world, self.visited, place)
        # [row, decision] from each viewpoint visited.
        left = (self.metres + last[:, None]).amin(dim=2)
        known = left[:, -1].isfinite()
        here, view, count = state.viewpoint, state.view, torch.zeros_like(place)
        viewpoints, views = list[Tensor](), list[Tensor]()
        # Through each visited viewpoint once, at most.
        for _ in range(self.visited.shape[1]):
            through = _edges(world, self.visited, here) + left
            through = through.masked_fill(self.visited == here[:, None], torch.inf)
            best, index = through.min(dim=1)
            direct = _edges(world, here[:, None], place).squeeze(1) <= best
            there = torch.where(direct, place, self.visited.gather(1, index[:, None]).squeeze(1))
            moves = known & (here != place)
            there = torch.where(moves, there, here)
            slot = (world.neighbour[here] == there[:, None]).int().argmax(dim=1)
            view = torch.where(moves, world.view[here, slot], view)
            here, count = there, count + moves
            viewpoints.append(here)
            views.append(view)
        return Route(torch.stack(viewpoints, dim=1), torch.stack(views, dim=1), count), known

    def _at(self, world: World, viewpoint: Tensor, way: Route) -> "BacktrackGraph":
        """The trail after a way that ended there."""
        edge = _edges(world, self.visited, viewpoint)
        # [row, decision] from here to each.
        new = (self.metres + edge[:, None]).amin(dim=2)
        metres = torch.minimum(self.metres, new[:, :, None] + new[:, None])
        metres = torch.cat((metres, new[:, None]), dim=1)
        new = torch.cat((new, torch.zeros_like(new[:, :1])), dim=1)
        return replace(
            self,
            visited=torch.cat((self.visited, viewpoint[:, None]), dim=1),
            metres=torch.cat((metres, new[:, :, None]), dim=2),
            used=self.used + way.count,
            ways=(*self.ways, way),
        )

    def walked(self, start: State, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """[row, hop] viewpoints and views of all hops, the start first and the last repeated up to `most` hops.

        And [row, decision] the place among these of each decision, and at last of the end.
        """
        viewpoint, view = (part[:, None].repeat(1, most + 1) for part in (start.viewpoint, start.view))
        used = [torch.zeros_like(start.viewpoint)]
        for way in self.ways:
            hop = torch.arange(1, way.viewpoint.shape[1] + 1, device=viewpoint.device)
            # Only the end of the way is written twice.
            place = (used[-1][:, None] + hop).clamp(max=most)
            viewpoint, view = viewpoint.scatter(1, place, way.viewpoint), view.scatter(1, place, way.view)
            used.append(used[-1] + way.count)
        real = torch.minimum(torch.arange(most + 1, device=viewpoint.device), used[-1][:, None])
        return viewpoint.gather(1, real), view.gather(1, real), torch.stack(used, dim=1)


def _require_known(world: World, place: Tensor, unknown: Tensor, name: str) -> None:
    for row in unknown.nonzero().flatten().tolist():
        number = int(place[row])
        where = world.viewpoints[number] if number < len(world) else f"no viewpoint of this world ({number})"
        raise UsageError(
            f"{name} chose to go to {where}, which it has not seen; "
            "offer viewpoints that it visited, or neighbours of these (wants = 'neighbours')"
        )


def _edges(world: World, start: Tensor, end: Tensor) -> Tensor:
    """[row, any] metres of the edges from viewpoints [row, any] to others [row]; 0 to itself, infinite for none."""
    end = end[:, None].expand_as(start)
    joined = world.joined(start, end)
    metres = world.metres(start, torch.where(joined, end, start))
    return torch.where(joined, metres, torch.inf)
