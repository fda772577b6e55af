"""An agent that wants more than others gets it wherever agents walk: evaluated, shown, watched, in Gymnasium."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import vlnbert as vln
import vlnbert.environment.gym  # registers the environments
from tests.api.conftest import SPLIT
from tests.cli.conftest import called
from vlnbert.api.exploring import open_explorer
from vlnbert.api.runs import load_agent
from vlnbert.data.gym import open_env
from vlnbert.evaluation.walker import Walker, WalkRequest
from vlnbert.explorer.requests import EpisodeQuery

PLUGIN = """
import torch

import vlnbert as vln


@vln.register_agent("curious")
class Curious(vln.Agent):
    reads_tokens = False
    wants = ("neighbours", "panorama")

    def act(self, observation, memory):
        assert torch.equal(observation.neighbours[:, 0], observation.state.viewpoint)
        assert observation.panorama.features.shape[1:] == (36, observation.features.shape[2])
        brightest = observation.panorama.features.sum(dim=2).argmax(dim=1)
        slot = 1 + brightest % (observation.choosable.sum(dim=1) - 1).clamp(min=1)
        return torch.where(memory == 3, 0, slot), memory + 1

    def begin(self, batch):
        return torch.zeros_like(batch.state.viewpoint)
"""


class Curious(vln.Agent):
    """Notes what it is shown."""

    reads_tokens = False
    wants: Any = ("neighbours", "panorama")

    def __init__(self) -> None:
        self.seen = list[tuple[bool, bool]]()

    def act(self, observation: Any, memory: Any) -> Any:
        self.seen.append((observation.neighbours is not None, observation.panorama is not None))
        return torch.zeros_like(observation.state.viewpoint), memory


class Incurious(Curious):
    wants = ()
    sees_features = False


class Foreign:
    """No `vln.Agent`."""

    reads_tokens = False
    wants = ("panorama",)

    def __init__(self) -> None:
        self.seen = list[Any]()

    def begin(self, batch: Any) -> None:
        return None

    def act(self, observation: Any, memory: Any) -> Any:
        self.seen.append(observation)
        return torch.zeros_like(observation.state.viewpoint), memory


def test_who_asks_is_shown_and_others_are_not(data: vln.Data) -> None:
    agents = Curious(), Incurious()
    for agent in agents:
        vln.evaluate(agent, data, SPLIT, bar=False)
    assert [set(agent.seen) for agent in agents] == [{(True, True)}, {(False, False)}]
    foreign = Foreign()
    vln.evaluate(foreign, data, SPLIT, bar=False)
    (seen,) = foreign.seen
    assert seen.neighbours is None
    here = seen.state.viewpoint
    assert torch.equal(seen.panorama.features, data.panorama_bank.look(here))


def test_wherever_it_walks(data: vln.Data) -> None:
    agent = Curious()
    id = data.episodes(SPLIT).ids[0]
    vln.episode(agent, id, data, SPLIT, bar=False)
    assert set(agent.seen) == {(True, True)}
    agent.seen.clear()
    start = data.world.viewpoints[int(data.episodes(SPLIT).start[0])]
    scan = data.world.scans[int(data.world.scan_of[data.episodes(SPLIT).start[0]])]
    Walker(load_agent(agent), data, SPLIT).follow([WalkRequest(scan=scan, start=start, text="walk")])
    assert set(agent.seen) == {(True, True)}
    agent.seen.clear()
    explorer = open_explorer([agent], data, device=None, threads=None)
    explorer.walk([EpisodeQuery(0, SPLIT, id)])
    assert agent.seen
    assert set(agent.seen) == {(True, True)}


def test_from_the_command_line(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    file = tmp_path / "curious.py"
    file.write_text(PLUGIN)
    outcome = called("evaluate", "--agent", f"{file}:Curious", "--data", house, "--split", "val_unseen", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("panoramas of ") == 1
    assert json.loads(outcome.out)["r2r/val_unseen"]["tl"] > 0


def refused(agent: Any, data: Any, out: Path, **more: Any) -> str:
    with pytest.raises(vln.VlnbertError) as caught:
        vln.evaluate(agent, data, SPLIT, bar=False, out=out, **more)
    assert not out.exists(), "nothing half-written"
    (line,) = str(caught.value).splitlines()
    return line


def test_what_cannot_be_shown_is_one_line(data: vln.Data, house: Path, tmp_path: Path) -> None:
    out, agent = tmp_path / "out", Curious()
    agent.wants = ("panoramas",)
    assert refused(agent, data, out).endswith("'panoramas' in Curious.wants; did you mean panorama?")
    agent.wants = None
    assert refused(agent, data, out).startswith("Curious.wants is None; give names, such as")
    agent = Incurious()
    agent.wants = "panorama"
    assert refused(agent, data, out).startswith("Incurious.wants has panorama, and this environment shows no features;")
    bare = shutil.copytree(house, tmp_path / "bare", ignore=shutil.ignore_patterns("features"))
    assert "features: holds no feature file; name one with " in refused(Curious(), bare, out)
    shown = vln.open_data(data, features=lambda world: torch.ones(len(world), world.slots, 2))
    assert "do not show all 36 views, and a panorama is wanted" in refused(Curious(), shown, out)


def test_in_gymnasium(data: vln.Data, house: Path) -> None:
    plain = open_env(data)
    assert not {"neighbours", "panorama", "panorama_direction"} & set(plain.observation_space.spaces)
    env = gymnasium.make("vlnbert/R2R-v0", data=data, wants=("neighbours", "panorama")).unwrapped
    seen, info = env.reset(seed=0)
    while True:
        assert env.observation_space.contains(seen)
        here = torch.tensor([int(seen["neighbours"][0])])
        assert np.array_equal(seen["panorama"], data.panorama_bank.look(here)[0].numpy())
        assert seen["panorama_direction"].shape == (36, 4)
        action = info["teacher"]
        before = seen
        seen, _, ended, _, info = env.step(np.int64(action))
        if ended:
            break
        assert seen["neighbours"][0] == before["neighbours"][action], "that is where it led"
    with pytest.raises(vln.UnknownNameError, match="did you mean neighbours"):
        open_env(data, wants="neighbour")


def test_a_class_is_made_with_the_words(data: vln.Data, tmp_path: Path) -> None:
    file = tmp_path / "reader.py"
    file.write_text("class Reader:\n    def __init__(self, texts, seed):\n        self.texts = texts\n")
    file.write_text(file.read_text() + "    def begin(self, batch): ...\n    def act(self, observation, memory): ...\n")
    made = Walker(load_agent(f"{file}:Reader"), data, SPLIT).agent
    assert made.inner.texts is not None
    assert made.inner.texts.slot(0, 1) == data.texts.slot(0, 1)


@pytest.mark.parametrize("objects", [None, "box-shape"])
def test_objects_are_read_in_the_order_in_which_they_are_seen(data: vln.Data, objects: str | None) -> None:
    """By a file, or by channels; also where a viewpoint shows some of them only."""
    seen = vln.open_data(data, features=vln.FeatureSpec(objects=objects, max_objects=2))
    table, counts = seen.object_bank.object_table, set[int]()
    for viewpoint in range(len(data.world)):
        rows = range(int(table.first[viewpoint]), int(table.first[viewpoint] + table.count[viewpoint]))
        names = [table.names[int(table.name[row])].replace("#", " ") for row in rows]
        assert seen.texts.objects(viewpoint) == names
        counts.add(len(names))
    assert max(counts) == 2
    assert max(len(data.texts.objects(viewpoint)) for viewpoint in range(len(data.world))) > 2
