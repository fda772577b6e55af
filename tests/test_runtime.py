"""What a machine is found to be good at."""

import pytest
import torch

from vlnbert import runtime
from vlnbert.runtime import chosen_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(("half", "chosen"), [(0.5, "bfloat16"), (0.9, "float32"), (3.0, "float32")])
def test_half_precision_must_be_much_faster(half: float, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {torch.float32: 1.0, torch.bfloat16: half}
    monkeypatch.setattr(runtime, "_product_seconds", lambda precision, width: seconds[precision])
    assert chosen_precision("fastest", CPU, 768) == chosen


def test_the_choice_is_measured_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = chosen_precision("fastest", CPU, 64)
    assert chosen in ("float32", "bfloat16")
    assert chosen in capsys.readouterr().err
    assert chosen_precision("bfloat16", CPU, 64) == "bfloat16"
    assert capsys.readouterr().err == ""
