"""Who goes back is trained, evaluated, written, recorded and reported as it walked: hop by hop."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT
from vlnbert.environment.environment import Observation
from vlnbert.evaluation.recording import Recorder
from vlnbert.rollout.agents import EpisodeBatch

FEW = {"batch": 4, "max_steps": 5, "iterations": 2, "validate_every": 2, "report_every": 1, **QUIETLY}
AWAY = 2  # steps, after which it goes back to where it began


@dataclass(frozen=True)
class HomesickConfig:
    """How sure it is."""

    surely: float = 20.0


class Homesick(vln.Policy):
    """Takes the last way twice, goes back to its start, and stops there."""

    wants = ("neighbours",)
    goes_back = True
    hidden_width = 2

    def __init__(self, config: HomesickConfig, inputs: vln.Inputs) -> None:
        super().__init__()
        self.surely = nn.Parameter(torch.tensor(config.surely))

    def begin(self, batch: EpisodeBatch) -> Tensor:
        return batch.tokens.new_zeros(len(batch.tokens), 0)

    def step(self, observation: Observation, memory: Tensor, attention: bool = False) -> vln.Decision:
        time, choosable = memory.shape[1], observation.choosable
        slot = (choosable.sum(dim=1) - 1) * (time < AWAY)
        logits = self.surely * torch.nn.functional.one_hot(slot, choosable.shape[1])
        visited = torch.cat((memory, observation.state.viewpoint[:, None]), dim=1)
        back = torch.full_like(visited[:, :1], 2 if time == AWAY else -1) * self.surely
        return vln.Decision(
            logits=logits.masked_fill(~choosable, -torch.inf),
            memory=visited,
            hidden=self.surely.expand(len(visited), 2),
            place_logits=back,
            places=visited[:, :1],
        )


@pytest.fixture
def run(data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None]) -> vln.Run:
    vln.register_policy("homesick")(Homesick)
    return vln.train("demo", data, tmp_path / "run", policy="homesick", **FEW)


def test_it_is_scored_written_and_recorded_hop_by_hop(run: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    found = vln.evaluate(run, data, split=SPLIT, bar=False)
    evaluation = found[SPLIT]
    walked, world = evaluation.trajectories, data.world
    start = walked.viewpoint[:, 0]
    assert walked.viewpoint.shape[1] == 1 + 3 * 5
    assert torch.equal(walked.viewpoint[:, -1], start), "all end where they began"
    assert set(evaluation.outcomes) == {"stopped"}
    assert walked.decisions.max() == 4
    longest = int(walked.length.argmax())
    path = walked.viewpoint[longest, : int(walked.length[longest])]
    assert len(path) == 5, "two away, two back"
    assert path[1] == path[3]
    metres = float(world.metres(path[:-1], path[1:]).sum())
    assert float(evaluation.scores.tl[longest]) == pytest.approx(metres)
    written = json.loads(found.write(tmp_path)[0].read_text())
    named = {one["instr_id"]: [hop[0] for hop in one["trajectory"]] for one in written}
    assert named[evaluation.episodes.ids[longest]] == [world.viewpoints[place] for place in path.tolist()]
    file = tmp_path / f"r2r_val_unseen_{found.agent}.json"
    assert vln.score(file, data, SPLIT).summary == pytest.approx(found[SPLIT].scores.summary())

    record = Recorder(data, "homesick").episode(evaluation, longest)
    assert record.path == tuple(world.viewpoints[place] for place in path.tolist())
    assert [step.viewpoint for step in record.steps] == [record.path[0], record.path[1], record.path[2], record.path[0]]
    back = record.steps[AWAY]
    assert back.hops == (record.path[1],)
    assert back.choices[back.chosen].viewpoint == record.path[0]
    assert [step.hops for step in record.steps if step is not back] == [()] * 3
    assert record.steps[-1].chosen == 0
    some = evaluation.select(torch.tensor([longest]))
    assert Recorder(data, "homesick").episode(some, 0) == record


def test_its_report_draws_the_way_back(run: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    """Every record in the page walks along edges; what is between two decisions is told beside them."""
    page = vln.report(run, tmp_path / "report.html", data, split=SPLIT, episodes=12, bar=False).read_text()
    decoder, records, place = json.JSONDecoder(), list[dict](), page.find('{"format"')
    while place >= 0:
        record, _ = decoder.raw_decode(page, place)
        records += [record] if "steps" in record else []  # the house's plan has a format too
        place = page.find('{"format"', place + 1)
    assert records
    jumps = 0
    for record in records:
        walked = [name for step in record["steps"] for name in (step["viewpoint"], *step["hops"])]
        assert [walked[0], *(after for before, after in pairwise(walked) if before != after)] == record["path"]
        numbers = torch.tensor([data.world.find(record["scan"], name) for name in record["path"]])
        assert data.world.joined(numbers[:-1], numbers[1:]).all()
        for step in record["steps"]:
            jumps += bool(step["hops"])
            shares = [choice["probability"] for choice in step["choices"]]
            assert sum(shares) == pytest.approx(1, abs=1e-3) or not step["hops"]
    assert jumps
    assert "one.hops" in page
