"""The table "What only the code states" of docs/paper.md, held against what the paper's presets do.

Nothing here reads a setting: each number is recovered from a loss, from weights after an update, or from steps counted.
"""

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.learning.objectives import made, navigation_objective
from tests.learning.samples import SHAPE
from vlnbert.data.data import open_data
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.losses import actor_critic_loss
from vlnbert.learning.optimisers import set_learning_rate
from vlnbert.learning.presets import presets
from vlnbert.learning.runs import begin_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Step
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.rollout.episodes import run_episodes
from vlnbert.rollout.mixed import SAMPLE, TEACHER, MixedAgent, collect_rollout
from vlnbert.tasks.tokens import load_tokenizer, tokenise

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text()
SECTION = PAGE.partition("## What only the code states")[2].partition("\n###")[0]
ROWS = dict(re.findall(r"^\| (\S.*?) \| (.*?) \|", SECTION, flags=re.MULTILINE))
PAPER = [name for name in presets if "stream" in name]
REVERIE = [name for name in PAPER if name.startswith("reverie")]
HALF = math.log(2)  # minus the log of each of two slots that are as likely
LONG = " ".join(["turn"] * 100)  # more words than any instruction may have
CRITIC = "critic."


def stated(begins: str) -> list[float]:
    """The numbers of a row of the table."""
    [cell] = [number for what, number in ROWS.items() if what.startswith(begins)]
    return [float(number) for number in re.findall(r"[\d.]+", cell)]


def objective(preset: str) -> Any:
    """That of a row that follows the teacher beside one that samples, two steps each of two slots as likely.

    The critic expects nothing, the second step of the sampled row earns 1, and objects and words cost 1 at the stops.
    """
    nothing, at_the_stops = torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    rollout = made(
        torch.tensor([TEACHER, SAMPLE]),
        viewpoint=torch.zeros(3, 2, dtype=torch.long),
        view=torch.zeros(3, 2, dtype=torch.long),
        slot=torch.zeros(2, 2, dtype=torch.long),
        teacher=torch.zeros(2, 2, dtype=torch.long),
        live=torch.ones(2, 2, dtype=torch.bool),
        logits=torch.zeros(2, 2, 2),
        value=nothing,
        grounding_loss=at_the_stops,
        alignment_loss=at_the_stops,
        last_value=torch.zeros(2),
        ended=torch.ones(2, dtype=torch.bool),
    )
    reward = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    settings = presets.navigator(preset).training.objective
    return navigation_objective(rollout, torch.tensor([TEACHER, SAMPLE]), reward, settings)


def test_the_table_is_read() -> None:
    assert stated("discount") == [0.9]
    assert len(ROWS) == 11  # with its heading and the rule below
    assert len(PAPER) == 11


@pytest.mark.parametrize("preset", PAPER)
def test_weights_of_the_losses(preset: str) -> None:
    found = objective(preset)
    discount = 2 * float(found.policy) / HALF - 1  # log 2 times the returns, discount and 1, over two steps
    assert [discount] == pytest.approx(stated("discount"))
    assert [float(found.imitation) / (2 * HALF)] == pytest.approx(stated("weight of imitation"))
    weights = [2 * float(found.value) / (1 + discount**2), float(found.entropy) / HALF]
    assert weights == pytest.approx(stated("weights of the critic's error and of the entropy"))
    assert (float(found.grounding), float(found.alignment)) == (1.0, 0.0)
    parts = found.imitation + found.policy + found.value - found.entropy + found.grounding
    assert float(found.total) == pytest.approx(float(parts))


def test_the_loss_alone_weighs_as_the_page_says() -> None:
    """Who takes the loss by itself gets the same weights."""
    one, live = torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    loss = actor_critic_loss(-one, one, torch.zeros(1, 1), one, live)
    assert [float(loss.value), float(loss.entropy)] == pytest.approx(stated("weights of the critic's error"))


@pytest.fixture(scope="module")
def roomy(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house with augmented paths, and with an instruction too long in every file that is learned from."""
    folder = shutil.copytree(house, tmp_path_factory.mktemp("paper") / "house")
    for name in ("r2r/R2R_train.json", "reverie/REVERIE_train.json"):
        items = json.loads((folder / name).read_text())
        items[0]["instructions"][0] = LONG
        (folder / name).write_text(json.dumps(items))
    tokenizer = load_tokenizer(folder / "vocab.txt")
    items = json.loads((folder / "r2r/R2R_train.json").read_text())
    told = [{**item, "instructions": item["instructions"][:1]} for item in items]
    told = [{**item, "instr_enc": tokenizer.encode(item["instructions"][0]).ids} for item in told]
    (folder / "r2r/prevalent_aug.json").write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def begun(roomy: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trainer]:
    """The training of a preset with a tiny navigator, not yet begun; each is made once."""
    made = dict[str, Trainer]()

    def begin(preset: str) -> Trainer:
        if preset not in made:
            experiment: Experiment = presets.navigator(preset)
            small = replace(SHAPE, matching=experiment.navigator.matching)
            made[preset] = begin_run(
                preset,
                replace(experiment, navigator=small, validate_on=(experiment.best_on,)),
                open_data(roomy),
                tmp_path_factory.mktemp(preset) / "run",
            )
        return made[preset]

    return begin


@pytest.mark.parametrize("preset", PAPER)
def test_the_gradient_is_clipped_without_the_critic_s(begun: Callable[[str], Trainer], preset: str) -> None:
    trainer = begun(preset)
    named = dict(trainer.model.named_parameters())
    for weight in named.values():
        weight.grad = torch.full_like(weight, 100.0)
    set_learning_rate(trainer.optimiser, 0.0)
    trainer.eager.step()
    navigator = torch.cat([weight.grad.flatten() for name, weight in named.items() if not name.startswith(CRITIC)])
    assert [float(navigator.norm())] == pytest.approx(stated("gradient clip"), rel=1e-4)
    assert all(weight.grad.eq(100).all() for name, weight in named.items() if name.startswith(CRITIC))


@pytest.mark.parametrize("preset", PAPER)
def test_every_weight_decays(begun: Callable[[str], Trainer], preset: str) -> None:
    trainer = begun(preset)
    named = dict(trainer.model.named_parameters())
    trainer.optimiser.state.clear()  # of other tests
    for weight in named.values():
        weight.data.fill_(1.0)
        weight.grad = torch.zeros_like(weight)
    set_learning_rate(trainer.optimiser, 1.0)
    trainer.eager.step()
    [decay] = stated("AdamW's weight decay")
    for name, weight in named.items():
        torch.testing.assert_close(weight.data, torch.full_like(weight, 1 - decay), msg=name)


def never_stopping(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a navigator go on for ever; the rows of each of its steps are noted."""
    step, rows = trainer.model.step, list[int]()

    def goes_on(*args: object, **kwargs: object) -> Step:
        made = step(*args, **kwargs)
        rows.append(len(made.logits))
        return replace(made, logits=made.logits.index_fill(1, torch.tensor(0), -1e9))

    monkeypatch.setattr(trainer.model, "step", goes_on)
    return rows


@pytest.mark.parametrize("preset", ["r2r-two-stream", *REVERIE])
def test_episodes_end_at_the_limit(
    begun: Callable[[str], Trainer], preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = begun(preset)
    rows, limit = never_stopping(trainer, monkeypatch), int(stated("steps of an episode")[0])
    batch, key = trainer.batches[0]
    with torch.no_grad():
        trainer.learner(batch, key)
    assert len(rows) == limit + 1, "one more look, for the value to bootstrap from"
    rows.clear()
    trainer.recipe.scores(trainer.model, trainer.environment, trainer.validation, trainer.config, trainer.ranks)
    naming = preset in REVERIE  # who came to the limit looks once more, to name what is there
    assert sum(rows) == len(trainer.validation[trainer.best_on].episodes) * (limit + naming)


def test_a_rollout_by_hand_ends_there_too(begun: Callable[[str], Trainer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults of the agent and of the loop are the same."""
    trainer = begun("r2r-two-stream")
    never_stopping(trainer, monkeypatch)
    batch, key = trainer.batches[0]
    policy = torch.full_like(batch.start, SAMPLE)
    agent = MixedAgent(trainer.model, trainer.environment, batch.tokens, policy, key)
    state = trainer.environment.reset(batch.start, batch.heading)
    start = EpisodeBatch(state, batch.tokens, torch.arange(len(policy)), goal=batch.goal)
    [limit, *_] = stated("steps of an episode")
    with torch.no_grad():
        rollout = collect_rollout(trainer.environment, agent, batch.start, batch.heading, batch.goal)
        walked = run_episodes(trainer.environment, agent, start)
    assert len(rollout.slot) == walked.viewpoint.shape[1] - 1 == limit


@pytest.mark.parametrize("preset", PAPER)
def test_instructions_are_cut(begun: Callable[[str], Trainer], preset: str) -> None:
    longest = {split.tokens.ids.shape[1] for split in begun(preset).batches.splits}
    _, r2r, reverie = stated("steps of an episode; tokens of an instruction")
    assert longest == {reverie if preset in REVERIE else r2r}


def test_tokens_by_hand_are_cut_as_r2r_s(begun: Callable[[str], Trainer], roomy: Path) -> None:
    split = begun("r2r-two-stream").batches.splits[0]
    tokens = tokenise(split.episodes, load_tokenizer(roomy / "vocab.txt"), roomy)
    assert tokens.ids.shape[1] == stated("steps of an episode; tokens of an instruction")[1]


@pytest.mark.parametrize("preset", [name for name in PAPER if name not in REVERIE])
def test_augmented_updates_take_turns(begun: Callable[[str], Trainer], preset: str) -> None:
    batches = begun(preset).batches
    updates = [
        {batches.split_of(number * batches.accumulate + part).name for part in range(batches.accumulate)}
        for number in range(6)
    ]
    people, aug = (int(share) for share in stated("R2R and augmented paths"))
    assert updates == ([{"r2r/train"}] * people + [{"r2r/aug"}] * aug) * 3
    half = len(batches.row_mode) // 2
    assert batches.row_mode.tolist() == [TEACHER] * half + [SAMPLE] * half
