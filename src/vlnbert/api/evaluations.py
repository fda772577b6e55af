"""How an agent did on some splits, as one object: printed, looked at, written or taken apart."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from json import dumps
from pathlib import Path

from vlnbert.evaluation.evaluate import RAN_OUT, Evaluation
from vlnbert.evaluation.submission import write_results
from vlnbert.evaluation.tables import score_table
from vlnbert.tables import Table


class Evaluations(Mapping[str, Evaluation]):
    """How an agent did on each split: `print` it, look at it in a notebook, or take `scores` and `to_json()`.

    A split's own `Evaluation` holds where the agent went and its scores episode by episode.
    """

    def __init__(self, agent: str, evaluations: Mapping[str, Evaluation], weights: str = "") -> None:
        """`weights` tells which of a run's weights walked."""
        self.agent, self._evaluations, self.weights = agent, dict(evaluations), weights

    @property
    def scores(self) -> dict[str, dict[str, float | int | None]]:
        """By split: rates as fractions, TL and NE in metres. Splits that withhold their goals are left out."""
        known = {name: result.scores for name, result in self.items()}
        return {name: scores.summary() for name, scores in known.items() if scores is not None}

    @property
    def withheld(self) -> list[str]:
        """The splits that were walked and not scored, since their goals are withheld."""
        return [name for name, result in self.items() if result.scores is None]

    def to_json(self, indent: int | None = None, per_episode: bool = False) -> str:
        """The scores as a JSON object, keyed by split; `per_episode` those of each episode, and how it ended."""
        return dumps(self.per_episode if per_episode else self.scores, indent=indent)

    @property
    def per_episode(self) -> dict[str, dict[str, dict[str, float | str]]]:
        """By split and episode: its outcome, "stopped" or "ran out of steps", and its scores where goals are known."""
        return {
            name: {
                id: {"outcome": outcome, **({} if one.scores is None else one.scores.of(row))}
                for row, (id, outcome) in enumerate(zip(one.episodes.ids, one.outcomes, strict=True))
            }
            for name, one in self.items()
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write result files, <task>_<split>_<agent>.json, in the leaderboards' form."""
        written = []
        for name, result in self.items():
            written.append(Path(folder) / f"{name.replace('/', '_')}_{self.agent}.json")
            walked = result.trajectories
            write_results(
                written[-1],
                result.episodes,
                result.world,
                walked=walked.viewpoint,
                walked_length=walked.length,
                views=walked.view,
                predicted_objects=result.predicted_objects,
            )
        return written

    def table(self) -> Table:
        """A row for each split."""
        names = ", ".join(self.withheld)
        spent = {name: sum(outcome == RAN_OUT for outcome in one.outcomes) for name, one in self.items()}
        told = [
            f"{name}: {count:,} of {len(self[name].episodes):,} {RAN_OUT}" for name, count in spent.items() if count
        ]
        notes = [self.weights, *told, f"{names}: walked, not scored, since the goals are withheld" if names else ""]
        return replace(score_table(self.agent, self.scores), note="\n".join(filter(None, notes)))

    def __getitem__(self, split: str) -> Evaluation:
        return self._evaluations[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluations)

    def __len__(self) -> int:
        return len(self._evaluations)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
