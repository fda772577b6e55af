"""Other people's parts that end the process, cannot be told, give odd tensors or write where they should not.

One line names the part and its file, the exit code is 2, and no run is left: never success without training.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import vlnbert as vln
from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights

HEAD = """
import torch
import vlnbert as vln
from torch import nn
from vlnbert.navigator import BackboneOutput, Instruction, Language

class Odd(BaseException): ...

class Mute(Exception):
    def __str__(self):
        raise SystemExit(0)

class Stop(KeyboardInterrupt): ...

def does(given=None):
    {does}
    return given

"""
REWARD = """
@vln.register_reward("mine")
def mine(rollout, batch, world):
    does(batch)
    return rollout.slot.float()
"""
REWARD_CLASS = """
@vln.register_reward("mine")
class Mine(nn.Module):
    def __init__(self, world, config):
        super().__init__()
        {init}
    def forward(self, rollout, batch):
        {forward}
        return rollout.slot.float()
"""
FEATURES = """
@vln.register_features("mine")
def mine(world):
    return does(torch.ones(len(world), 36, 3))
"""
BANK = """
@vln.register_features("mine")
class Mine:
    width = 3
    def __init__(self, world):
        self.slots = world.slots
    def look(self, viewpoint):
        return does(torch.ones(len(viewpoint), self.slots, 3))
"""
BACKBONE = """
@vln.register_backbone("mine")
class Mine(nn.Module):
    def __init__(self, config):
        super().__init__()
        {init}
        self.words = nn.Embedding(config.vocabulary, config.hidden)
    def encode(self, tokens, mask):
        words = self.words(tokens)
        return Instruction({encode}(words[:, 0]), Language(words[:, 1:], mask[:, 1:], kv_cache=None))
    def forward(self, state, visual, language, attention_maps=False):
        seen = (visual.tokens @ state[:, :, None]).squeeze(2)
        return BackboneOutput(state, {forward}(seen), language.mask.float(), language, None)
"""
TASK = """
@vln.register_task
class Mine(vln.R2R):
    name = "mine"
    def files(self, folder):
        {files}
        return folder.instruction_files("r2r")
    def read(self, path):
        for record in super().read(path):
            {read}
            yield record
    def teacher(self, world, viewpoint, memory):
        slot, memory = super().teacher(world, viewpoint, memory)
        return {teacher}(slot), memory
    def arrived(self, world, viewpoint, episodes):
        return {arrived}(super().arrived(world, viewpoint, episodes))
"""
AGENT = """
@vln.register_agent("mine")
class Mine(vln.Agent):
    reads_tokens = sees_features = False
    def __init__(self):
        {init}
    def begin(self, batch):
        {begin}
    def act(self, observation, memory):
        return {act}(torch.zeros_like(observation.state.viewpoint)), memory
"""
SLOTS = ("init", "forward", "files", "read", "begin")
GIVING = ("encode", "teacher", "arrived", "act")
TRAIN = ("train", "demo", "--data", "HOUSE", "--out", "RUN", *TINY, "--training.iterations", "2")
ON_MINE = ("--train-on", "mine/train", "--validate-on", "mine/val_unseen", "--best-on", "mine/val_unseen")
OF_REWARD = (*TRAIN, "--training.reward", "mine")
OF_FEATURES = (*TRAIN, "--features.views", "mine")
OF_BACKBONE = (*TRAIN, "--navigator.backbone", "mine")
OF_TASK = (*TRAIN, "--training.validate-every", "1", *ON_MINE)
OF_AGENT = ("evaluate", "--agent", "mine", "--data", "HOUSE", "--splits", "val_unseen")
# Where the plugin calls does(), the command, and how the line begins.
PARTS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "reward": (REWARD, "", OF_REWARD, "the reward 'mine'"),
    "reward made": (REWARD_CLASS, "init", OF_REWARD, "the reward 'mine'"),
    "reward module": (REWARD_CLASS, "forward", OF_REWARD, "the reward 'mine'"),
    "features": (FEATURES, "", OF_FEATURES, "the features 'mine'"),
    "bank": (BANK, "", OF_FEATURES, "the features"),
    "backbone made": (BACKBONE, "init", OF_BACKBONE, "the backbone 'mine'"),
    "backbone encode": (BACKBONE, "encode", OF_BACKBONE, "Mine"),
    "backbone forward": (BACKBONE, "forward", OF_BACKBONE, "Mine"),
    "task files": (TASK, "files", OF_TASK, "the task mine"),
    "task read": (TASK, "read", OF_TASK, "the task mine"),
    "task teacher": (TASK, "teacher", OF_TASK, "the task mine"),
    "task arrived": (TASK, "arrived", OF_TASK, "the task mine"),
    "agent made": (AGENT, "init", OF_AGENT, "the agent mine"),
    "agent begin": (AGENT, "begin", OF_AGENT, "the agent Mine"),
    "agent act": (AGENT, "act", OF_AGENT, "the agent Mine"),
}
RAISED = {
    "raise SystemExit(0)": "SystemExit: 0",
    "import sys; sys.exit()": "SystemExit: ",
    "raise Odd('x')": "Odd: x",
    "raise Mute": "Mute, which cannot be told",
    "raise Stop": "Stop: ",
    "raise StopIteration": "StopIteration: ",
    "raise OSError('no room')": "OSError: no room",
}
GIVEN = {"given = given.to_sparse()": "sparse", "given = given.to('meta')": "meta"}


def write(path: Path, part: str, does: str) -> Path:
    source, at, *_ = PARTS[part]
    source = source.replace("{forward}(seen)", "does(seen)" if at == "forward" else "seen")
    for name in SLOTS:
        source = source.replace("{" + name + "}", "does()" if name == at and at not in GIVING else "pass")
    for name in GIVING:
        source = source.replace("{" + name + "}", "does" if name == at else "")
    path.write_text(HEAD.format(does=does) + source)
    return path


def outcome_of(part: str, does: str, house: Path, folder: Path) -> tuple[int, str]:
    plugin = write(folder / "my.py", part, does)
    words = [{"HOUSE": str(house), "RUN": str(folder / "run")}.get(word, word) for word in PARTS[part][2]]
    outcome = called("--plugin", plugin, *words)
    return outcome.code, outcome.err


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("does", RAISED)
def test_what_it_raises_is_a_line_that_names_it(
    part: str, does: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    code, told = outcome_of(part, does, house, tmp_path)
    assert code == 2, told
    (line,) = told.splitlines()
    named = PARTS[part][3] if PARTS[part][3] != "Mine" else "the backbone Mine"
    assert line.startswith(f"vlnbert: {named}"), line
    if does == "raise StopIteration" and part == "task read":  # which Python makes another error of, in a generator
        assert line.endswith("(RuntimeError: generator raised StopIteration); fix it")
    else:
        assert f"of {tmp_path / 'my.py'} ({RAISED[does]}); fix it" in line
    assert not (tmp_path / "run").exists() or part == "task arrived", "whose first update is made before"


GIVERS = [part for part in PARTS if PARTS[part][1] in GIVING or part in ("features", "bank", "backbone forward")]


@pytest.mark.parametrize("part", GIVERS)
@pytest.mark.parametrize("does", GIVEN)
def test_odd_tensors_are_told(
    part: str, does: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    code, told = outcome_of(part, does, house, tmp_path)
    assert code == 2, told
    (line,) = told.splitlines()
    assert PARTS[part][3].removeprefix("the agent ") in line
    assert GIVEN[does] in line, line


@pytest.mark.parametrize("gives", ["to_sparse()", "to('meta')"])
def test_odd_rewards_are_told(gives: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    source = f"import vlnbert as vln\nvln.register_reward('mine')(lambda rollout, *_: rollout.slot.float().{gives})\n"
    (tmp_path / "my.py").write_text(source)
    words = [{"HOUSE": str(house), "RUN": str(tmp_path / "run")}.get(word, word) for word in OF_REWARD]
    outcome = called("--plugin", tmp_path / "my.py", *words)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith("vlnbert: the reward 'mine' ")
    assert ("sparse" if "sparse" in gives else "meta") in line
    assert not (tmp_path / "run").exists()


def test_ctrl_c_stays_ctrl_c(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    code, told = outcome_of("agent act", "raise KeyboardInterrupt", house, tmp_path)
    assert (code, told) == (130, "vlnbert: interrupted\n")


def test_a_hook_that_nobody_guards_is_no_success(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    """As in the backward pass, which torch calls."""
    plugin = write(
        tmp_path / "my.py", "backbone forward", "given.requires_grad and given.register_hook(lambda gradient: exit(0))"
    )
    words = [{"HOUSE": str(house), "RUN": str(tmp_path / "run")}.get(word, word) for word in OF_BACKBONE]
    outcome = called("--plugin", plugin, *words)
    assert outcome.code == 2
    assert outcome.err.startswith(f"vlnbert: the plugin {plugin} failed in line ")
    assert len(outcome.err.splitlines()) == 1


WRITING = {
    "rollout": "rollout.viewpoint.zero_(); rollout.value.fill_(9); rollout.live.data.fill_(False)",
    "batch": "batch.goal.numpy()[:] = 0; batch.path.zero_(); batch.tokens.data.zero_()",
    "its fields": "object.__setattr__(rollout, 'live', None); object.__setattr__(batch, 'path', None)",
}
STEADY = """
import torch
import vlnbert as vln

@vln.register_reward("mine")
def mine(rollout, batch, world):
    earned = rollout.slot.float() - (rollout.viewpoint[1:] == batch.goal).float()
    {writes}
    return earned
"""


@pytest.mark.parametrize("what", WRITING)
def test_a_reward_cannot_damage_what_it_is_given(
    what: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    for name, writes in {"honest": "", "writing": WRITING[what]}.items():
        (tmp_path / "my.py").write_text(STEADY.format(writes=writes))
        words = [{"HOUSE": str(house), "RUN": str(tmp_path / name)}.get(word, word) for word in OF_REWARD]
        outcome = called("--plugin", tmp_path / "my.py", *words)
        assert outcome.code == 0, outcome.err
        forget_plugins()
    assert same(weights(tmp_path / "honest"), weights(tmp_path / "writing"))


@pytest.mark.parametrize("part", ["reward", "task"])
def test_writing_into_the_world_is_told(
    part: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    plugin = tmp_path / "my.py"
    plugin.write_text(
        STEADY.format(writes="world.distance.zero_()")
        if part == "reward"
        else HEAD.format(does="pass")
        + TASK.replace("slot, memory = super", "world.next_slot.zero_()\n        slot, memory = super")
        .replace("{files}", "pass")
        .replace("{read}", "pass")
        .replace("{teacher}", "")
        .replace("{arrived}", "")
    )
    words = [
        {"HOUSE": str(house), "RUN": str(tmp_path / "run")}.get(word, word)
        for word in (OF_REWARD if part == "reward" else OF_TASK)
    ]
    outcome = called("--plugin", plugin, *words)
    assert outcome.code == 2, outcome.err
    named = "the reward 'mine'" if part == "reward" else "the task mine"
    assert outcome.err == f"vlnbert: {named} wrote into tensors that it was only lent; work on a copy (.clone())\n"
    assert not (tmp_path / "run").exists()


def test_an_agent_cannot_move_by_writing(house: Path, tmp_path: Path) -> None:
    """It stops where it is, and says that it is at the goal."""

    class Cheat(vln.Agent):
        oracle, reads_tokens, sees_features = True, False, False

        def begin(self, batch):  # type: ignore[no-untyped-def]
            batch.state.viewpoint.copy_(batch.goal)
            batch.index.zero_()
            return batch.goal

        def act(self, observation, memory):  # type: ignore[no-untyped-def]
            observation.state.viewpoint.copy_(memory)
            return memory * 0, memory

    cheat, stop = (vln.evaluate(agent, house, "r2r/val_unseen", bar=False) for agent in (Cheat(), "stop"))
    assert cheat.scores == stop.scores


def test_a_teacher_that_never_stops_is_told(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    code, told = outcome_of("task teacher", "given = given * 0 + 1", house, tmp_path)
    assert code == 2
    assert told == (
        "vlnbert: the teacher of the task mine has not stopped after 1,000 steps; "
        "let it choose slot 0 where an episode ends\n"
    )


class Ends:
    """A callback that does something when it is told of an update."""

    def __init__(self, does: Callable[[], object]) -> None:
        self.does = does

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        parts.clear()
        self.does()

    def validated(self, iteration: int, scores: object) -> None: ...


class Pruned(Exception):
    """As those who search for settings raise."""


def test_callbacks_cannot_end_the_process_or_change_what_is_logged(house: Path, tmp_path: Path) -> None:
    small = {"batch": 4, "max_steps": 4, "hidden": 16, "heads": 2, "inner": 32, "iterations": 2, "report_every": 1}

    def train(name: str, does: Callable[[], object]) -> vln.Run:
        return vln.train("demo", house, tmp_path / name, callbacks=[Ends(does)], bar=False, tensorboard=False, **small)

    with pytest.raises(vln.UsageError, match=r"^the callback Ends failed in line \d+ of .* \(SystemExit: 0\); fix it$"):
        train("exit", lambda: exit(0))

    def prunes() -> None:
        raise Pruned

    with pytest.raises(Pruned):
        train("pruned", prunes)
    lines = [line for line in train("whole", lambda: None).log if "scores" not in line]
    assert all("total" in line for line in lines)
