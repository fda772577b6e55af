"""Which split each update comes from: in turn, or by weights that may change over the training."""

from collections.abc import Sequence


class SplitSchedule:
    """A pure function of the update's number, so that nothing of it is saved.

    Each update gives every split its share of one and takes a whole one from the split that has most. So at any time
    each has had about what its weights ask for, and equal weights are turns.
    """

    def __init__(self, first: Sequence[float], last: Sequence[float], iterations: int) -> None:
        """Weights of the splits in the first and in the last of so many updates; in between they change evenly."""
        self.first, self.last, self.iterations = _shares(first), _shares(last), iterations
        self._credit, self._taken = [0.0] * len(first), [0] * len(first)
        self._places: list[tuple[int, int]] = []

    def shares(self, update: int) -> list[float]:
        """How much of an update each split is given; together they are one."""
        done = min(1.0, update / max(1, self.iterations - 1))
        mixed = [(1 - done) * first + done * last for first, last in zip(self.first, self.last, strict=True)]
        return _shares(mixed)

    def place(self, update: int) -> tuple[int, int]:
        """The split that an update comes from, and how many came from it before."""
        while len(self._places) <= update:
            shares = self.shares(len(self._places))
            self._credit = [credit + share for credit, share in zip(self._credit, shares, strict=True)]
            split = max(range(len(shares)), key=lambda one: round(self._credit[one], 9))  # rounding breaks no turns
            self._credit[split] -= 1
            self._places.append((split, self._taken[split]))
            self._taken[split] += 1
        return self._places[update]


def _shares(weights: Sequence[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]
