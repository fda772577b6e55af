"""Settings of losses, optimisers, schedules and parts that cannot be trained: one line, and no folder is left."""

from pathlib import Path
from typing import Any

import pytest

from tests.learning.samples import EXPERIMENT
from vlnbert.api.training import changed_preset
from vlnbert.data.data import open_data
from vlnbert.errors import VlnbertError
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.objective import PAPER_TERMS, term_names
from vlnbert.learning.runs import begin_run

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "schedule": ({"schedule": "cosin"}, "no schedule 'cosin'; did you mean cosine"),
    "optimizer": ({"optimizer": "adam"}, "no optimizer 'adam'; did you mean adamw?"),
    "its settings": (
        {"optimizer_settings": {"momentum": 0.9}},
        "the optimizer adamw cannot be made (AdamW.__init__() got an unexpected keyword argument 'momentum'); see ",
    ),
    "its rate": ({"optimizer_settings": {"lr": 1.0}}, "the optimizer adamw cannot be made ("),
    "part": ({"parts": {"bakbone": 0.1}}, "parts: no part of the network 'bakbone'; did you mean backbone?"),
    "factor": ({"parts": {"backbone": -1.0}}, "parts='backbone=-1.0' is no factor of a learning rate; choose 0 to "),
    "no number": ({"parts": {"backbone": float("nan")}}, "parts='backbone=nan' is no factor of a learning rate"),
    "callback": ({"training.callbacks": "other"}, "no callback 'other'; "),
    "reward": ({"reward": "papre"}, "no reward 'papre'; did you mean paper?"),
    "policy": ({"policy": "other"}, "no policy 'other'; "),
    "loss": ({"losses": {"entropi": 0.5}}, "no loss 'entropi'; did you mean entropy?"),
    "weight": ({"losses": {"imitation": -1.0}}, "losses='imitation=-1.0' is no weight; choose 0 to 1,000,000"),
    "no weight": ({"losses": {"entropy": float("nan")}}, "losses='entropy=nan' is no weight; choose 0 to 1,000,000"),
    "of nothing": ({"losses": {"progress": 0.0}}, "losses='progress=0.0' adds nothing; leave it out"),
    "from nowhere": ({"final_losses": {"progress": 1.0}}, "final_losses='progress' has no weight to begin with"),
    "critic": ({"losses": {"value": 0.0}}, "losses='value=0' leaves out the critic, whose values are read by policy;"),
    "all": ({"losses": dict.fromkeys(PAPER_TERMS, 0.0)}, "losses leaves out every loss, so that nothing is learned;"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_in_one_line_with_nothing_written(house: Path, tmp_path: Path, kind: str) -> None:
    changes, begins = REFUSED[kind]
    with pytest.raises(VlnbertError) as caught:
        begin_run("mine", changed_preset(EXPERIMENT, changes).experiment, open_data(house), tmp_path / "run")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(begins)
    assert not (tmp_path / "run").exists()


def test_losses_that_find_nothing_say_so(house: Path, tmp_path: Path) -> None:
    """R2R has no targets to name."""
    losses = {name: float(name == "grounding") for name in PAPER_TERMS}
    experiment = changed_preset(EXPERIMENT, {"losses": losses}).experiment
    trainer = begin_run("mine", experiment, open_data(house), tmp_path / "run")
    with pytest.raises(VlnbertError, match=r"^the losses grounding find nothing to learn in updates from r2r; add one"):
        trainer.advance(0)


def test_a_loss_that_comes_with_time_is_kept() -> None:
    later = TrainConfig(losses={"entropy": 0.0, "value": 0.0}, final_losses={"entropy": 0.02})
    assert term_names(later) == ("imitation", "policy", "entropy", "grounding", "alignment")
