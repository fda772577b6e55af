"""A loss, an optimiser, a schedule and a callback in one file, an LSTM in another: trained, stopped, resumed."""

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import TINY, called
from tests.examples.conftest import EXAMPLES
from tests.learning.samples import same
from vlnbert.learning.run_folder import last_checkpoint
from vlnbert.navigator.storage.folder import read_safetensors
from vlnbert.plugins import load_plugin

EXAMPLE, LSTM = EXAMPLES / "own_loss.py", EXAMPLES / "own_lstm.py"
QUIET = {"bar": False, "tensorboard": False, "threads": 1}
FEW = {"batch": 4, "warmup": 0, "validate_every": 2, "max_steps": 4, "iterations": 4, "report_every": 1}
SHAPE = {"hidden": 24, "heads": 2, "inner": 32}

pytestmark = pytest.mark.usefixtures("forget_plugins")


class Stop:
    """Ends a training after some updates, as Ctrl-C does."""

    def begun(self, trainer: Any) -> None:
        self.trainer = trainer

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self.trainer.stopping = iteration >= 2

    def validated(self, *_: object) -> None: ...


def trained(data: vln.Data, out: Path, **changes: Any) -> vln.Run:
    load_plugin(EXAMPLE)
    load_plugin(LSTM)
    shape = {} if "policy" in changes else SHAPE
    return vln.train("demo", data, out, **{**QUIET, **FEW, **shape, **changes})


def state(run: Path) -> dict[str, torch.Tensor]:
    """All that the last checkpoint keeps beside the weights."""
    return read_safetensors(last_checkpoint(run) / "trainer.safetensors")[0]


@pytest.mark.parametrize("example", [EXAMPLE, LSTM])
def test_they_are_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 65


@pytest.mark.parametrize(
    "changes",
    [
        {"losses": {"progress": 0.5}},
        {"losses": {"progress": 0.5}, "final_losses": {"progress": 0.0}},
        {"optimizer": "sgd", "schedule": "linear", "learning_rate": 1e-2, "parts": {"backbone.embeddings": 0.1}},
        {"policy": "lstm", "policy.settings": {"hidden": 16}, "losses": {"progress": 0.5}},
    ],
    ids=["loss", "fading", "optimiser", "lstm"],
)
def test_what_is_stopped_resumes_with_the_same_bits(data: vln.Data, tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = trained(data, tmp_path / "whole", **changes)
    halves = trained(data, tmp_path / "halves", callbacks=[Stop()], **changes)
    assert halves.progress.iteration == 2
    again = halves.resume(data, **QUIET)
    assert again.progress == whole.progress
    assert same(state(again.folder), state(whole.folder))
    assert same(dict(again.policy.state_dict()), dict(whole.policy.state_dict()))
    assert [line["total"] for line in again.log if "total" in line] == [
        line["total"] for line in whole.log if "total" in line
    ]


def test_its_parameters_learn_and_its_value_is_logged(data: vln.Data, tmp_path: Path) -> None:
    run = trained(data, tmp_path / "run", losses={"progress": 0.5}, iterations=2)
    saved = state(run.folder)
    head = [name for name in saved if "progress_loss.head" in name]
    assert {name.rpartition(".")[2] for name in head} == {"weight", "bias", "step", "exp_avg", "exp_avg_sq"}
    assert saved["learner.objective.progress_loss.head.weight"].shape == (1, SHAPE["hidden"])
    assert all(saved[name].abs().max() > 0 for name in head if name.endswith("exp_avg"))
    lines = [line for line in run.log if "total" in line]
    assert all(line["progress"] > 0 for line in lines)
    plain = trained(data, tmp_path / "plain", iterations=2)
    first = next(line for line in plain.log if "total" in line)
    assert lines[0]["total"] == pytest.approx(first["total"] + lines[0]["progress"], rel=1e-5)
    assert "progress" not in first


def test_a_fading_weight_ends_at_its_last(data: vln.Data, tmp_path: Path) -> None:
    run = trained(data, tmp_path / "run", losses={"progress": 0.5}, final_losses={"progress": 0.0})
    told = [line["progress"] for line in run.log if "progress" in line]
    assert told[0] > 0
    assert told[-1] == 0.0


def test_a_callback_ends_the_training_and_keeps_what_it_knows(data: vln.Data, tmp_path: Path) -> None:
    module = load_plugin(EXAMPLE)

    @vln.register_callback("after-three")
    class AfterThree(module.Enough):  # type: ignore[misc,name-defined]
        def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
            super().updated(iteration, learning_rate, parts)
            if iteration == 3:
                self.trainer.finish()

    run = trained(data, tmp_path / "run", **{"training.callbacks": ("after-three",), "iterations": 8})
    assert run.progress.iteration == 3
    assert run.progress.validated
    assert not run.interrupted
    _, header = read_safetensors(last_checkpoint(run.folder) / "trainer.safetensors")
    assert '"first": ' in header["callbacks"]


def test_by_words(house: Path, tmp_path: Path) -> None:
    words = ("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, "--training.iterations", 2)
    more = ("--training.losses", "progress=0.5", "--training.validate-every", 2)
    outcome = called("--plugin", EXAMPLE, *words, *more)
    assert outcome.code == 0, outcome.err
    assert vln.open_run(tmp_path / "run").experiment.training.losses == {"progress": 0.5}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"losses": {"progres": 0.5}}, "progres"),
        ({"losses": {"progress": 0.0}}, "adds nothing"),
        ({"losses": {"progress": -1.0}}, "is no weight"),
        ({"final_losses": {"progress": 0.5}}, "no weight to begin with"),
        ({"optimizer": "sdg"}, "sgd"),
        ({"schedule": "liner"}, "linear"),
        ({"parts": {"backbon": 0.1}}, "backbone"),
        ({"optimizer": "sgd", "optimizer_settings": {"momentu": 0.1}}, "cannot be made"),
        ({"policy": "lstn"}, "lstm"),
        (
            {"policy": "lstm", "policy.settings": {"hiden": 3}},
            r"no setting of the policy 'lstm' called 'hiden'; did you mean hidden\?",
        ),
        ({"policy": "lstm", "hidden": 48}, "navigator.hidden|hidden"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    data: vln.Data, tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(vln.VlnbertError, match=line) as told:
        trained(data, tmp_path / "run", **changes)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["progress=1", "--training.losses", "entropy=0"],
            "--training.losses stands twice; give all its values behind one",
        ),
        (["progress"], "--training.losses is 'progress', no name=value; write, for example, progress=0.5"),
        (["progress=much"], "--training.losses progress is 'much', where a number is expected"),
        (["progress=1", "progress=2"], "--training.losses says progress twice; leave one of them"),
    ],
)
def test_maps_are_spelled_name_value(house: Path, tmp_path: Path, words: list[str], line: str) -> None:
    begin = ("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY)
    outcome = called("--plugin", EXAMPLE, *begin, "--training.losses", *words)
    assert outcome.code == 2
    assert outcome.err == f"vlnbert: {line}; vlnbert train demo --help lists what it takes\n"
    assert not (tmp_path / "run").exists()


def counting(name: str, steps: int, alive: list[bool], counts: list[Any]) -> None:
    """Register a loss of ones whose sum is divided by a count that nobody else keeps; are those before still there?"""

    @vln.register_loss(name)
    class Counting(vln.Loss):
        def forward(self, rollout: vln.Rollout, batch: Any) -> torch.Tensor:
            return 1 + 0 * rollout.log_probability

        def counted(self, rollout: vln.Rollout) -> tuple[torch.Tensor, torch.Tensor]:
            alive.extend(count() is not None for count in counts)
            count = torch.tensor(steps)
            counts.append(weakref.ref(count))
            return torch.ones_like(rollout.live), count


def test_each_loss_is_divided_by_its_own_count(data: vln.Data, tmp_path: Path) -> None:
    """A count that is gone would leave its place in memory to another's, and its quotient with it."""
    alive, counts = list[bool](), list[Any]()
    for steps in (1, 2, 4):
        counting(f"by-{steps}", steps, alive, counts)
    losses = {f"by-{steps}": 1.0 for steps in (1, 2, 4)}
    run = trained(data, tmp_path / "run", losses=losses, iterations=1, validate_every=1)
    assert alive == [True] * 3
    first = next(line for line in run.log if "total" in line)
    assert [first["by-1"] / first[f"by-{steps}"] for steps in (1, 2, 4)] == [1.0, 2.0, 4.0]


def constant(value: float, name: str) -> None:
    """Register a loss that is the same number whatever the policy does."""

    @vln.register_loss(name)
    class Constant(vln.Loss):
        def forward(self, rollout: vln.Rollout, batch: Any) -> torch.Tensor:
            return torch.full_like(rollout.log_probability, value, requires_grad=value != value)


@pytest.mark.parametrize("others", [{}, dict.fromkeys(("imitation", "policy", "value", "entropy"), 0.0)])
def test_a_loss_that_is_detached_is_refused_at_the_first_update(
    data: vln.Data, tmp_path: Path, others: dict[str, float]
) -> None:
    constant(2.0, "monitor")
    with pytest.raises(vln.VlnbertError, match=r"^the loss 'monitor' is detached from what is trained, .*$"):
        trained(data, tmp_path / "run", losses={"monitor": 1.0, **others})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("report_every", [1, 3])
def test_a_loss_that_is_no_number_is_named_and_leaves_nothing(
    data: vln.Data, tmp_path: Path, report_every: int
) -> None:
    """Be it seen after the first update or after some: nothing that was learned is saved by then."""
    constant(torch.nan, "broken")
    with pytest.raises(vln.VlnbertError, match=r"^the loss of batch 0 is nan, in its term broken \(instructions .*$"):
        trained(data, tmp_path / "run", losses={"broken": 0.5}, report_every=report_every, validate_every=4)
    assert not (tmp_path / "run").exists()
    kept = trained(data, tmp_path / "run", iterations=1)
    assert kept.progress.iteration == 1, "the folder is free again"


def optimiser(name: str, keep: Any = 0.0, most: int | None = None, extra: bool = False) -> None:
    """Register plain SGD that keeps something of each parameter, and takes all of them, some or one more."""

    @vln.register_optimizer(name)
    class Own(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
            weights = [one for group in params for one in group["params"]][:most]
            super().__init__([*weights, *([torch.nn.Parameter(torch.ones(1))] if extra else [])], {"lr": lr})

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for weight in self.param_groups[0]["params"]:
                self.state[weight]["kept"] = keep


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"keep": [1.0, 2.0]}, "the optimizer own-kind keeps a list (kept), which no checkpoint can hold; let it keep"),
        ({"keep": "a text"}, "the optimizer own-kind keeps a str (kept), which no checkpoint can hold; let it keep"),
        ({"most": 3}, "the optimizer own-kind leaves out "),
        ({"extra": True}, "the optimizer own-kind has parameters that it was not given; "),
    ],
    ids=["list", "text", "some", "more"],
)
def test_an_optimiser_that_does_not_fit_is_named_at_the_first_update(
    data: vln.Data, tmp_path: Path, options: dict[str, Any], line: str
) -> None:
    optimiser("own-kind", **options)
    with pytest.raises(vln.VlnbertError) as told:
        trained(data, tmp_path / "run", optimizer="own-kind")
    assert str(told.value).startswith(line)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_an_optimiser_may_change_the_order_of_parameters(data: vln.Data, tmp_path: Path) -> None:
    """What it keeps is saved by the names of its parameters, in whatever order it has them."""

    @vln.register_optimizer("reversed")
    def reversed_adamw(params: Any, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        weights = [one for group in params for one in group["params"]]
        return torch.optim.AdamW(weights[::-1], lr=lr, weight_decay=weight_decay)

    whole = trained(data, tmp_path / "whole", optimizer="reversed")
    halves = trained(data, tmp_path / "halves", callbacks=[Stop()], optimizer="reversed")
    again = halves.resume(data, **QUIET)
    assert same(state(again.folder), state(whole.folder))
    moments = state(whole.folder)
    weights = again.policy.trained.state_dict()
    assert all(moments[f"optimiser.{name}.exp_avg"].shape == weight.shape for name, weight in weights.items())


def test_an_optimiser_may_keep_whole_numbers(data: vln.Data, tmp_path: Path) -> None:
    @vln.register_optimizer("counting")
    class Counting(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for weight in (one for one in group["params"] if one.grad is not None):
                    self.state[weight]["count"] = self.state[weight].get("count", 0) + 1
                    weight.data.sub_(group["lr"] / self.state[weight]["count"] * weight.grad)

    whole = trained(data, tmp_path / "whole", optimizer="counting")
    halves = trained(data, tmp_path / "halves", callbacks=[Stop()], optimizer="counting")
    again = halves.resume(data, **QUIET)
    assert again.progress == whole.progress
    assert same(dict(again.policy.state_dict()), dict(whole.policy.state_dict()))


@pytest.mark.parametrize(
    ("gives", "line"),
    [
        (lambda decision: decision.logits, r"gave a Tensor; its step must give a vln\.Decision with logits \["),
        (lambda decision: replace(decision, logits=decision.logits[:, :2]), r"gave logits \[\d+, 2\]; its step"),
        (
            lambda decision: replace(decision, hidden=None),
            r"gives no Decision\.hidden, which the critic reads; give one",
        ),
    ],
    ids=["no decision", "narrow", "no hidden"],
)
def test_what_a_policy_gives_is_looked_at(data: vln.Data, tmp_path: Path, gives: Any, line: str) -> None:
    kind = load_plugin(LSTM)

    @vln.register_policy("odd")
    class Odd(kind.LSTMPolicy):  # type: ignore[misc,name-defined]
        def step(self, observation: Any, memory: Any, attention: bool = False) -> Any:
            return gives(super().step(observation, memory, attention))

    with pytest.raises(vln.UsageError, match=f"^Odd {line}"):
        trained(data, tmp_path / "run", policy="odd")
    assert not (tmp_path / "run").exists()
