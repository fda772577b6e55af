"""`vlnbert weights`: import, inspect and export from their words to what they print and leave on disk."""

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.weights.exporting import published_state_dicts

CONFIG = NavigatorConfig("two-stream", 32, 4, 16, 2, 1, 30, 20, 6, 8, critic_width=10)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """A published agent; that the format is the reference's is shown elsewhere."""
    model, critic, _ = published_state_dicts(CONFIG, Navigator(CONFIG).state_dict(), {})
    optimizer = {"state": {}, "param_groups": [{"params": list(range(len(model)))}]}
    document = {
        "vln_bert": {"epoch": 3, "state_dict": model, "optimizer": optimizer},
        "critic": {"epoch": 3, "state_dict": critic},
    }
    torch.save(document, tmp_path / "agent.pt")
    return tmp_path / "agent.pt"


def test_import_tells_what_became_of_every_key(run: Callable, agent: Path, tmp_path: Path) -> None:
    outcome = run("weights", "import", agent, tmp_path / "mine", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    report = json.loads(outcome.out)
    assert report["family"] == "published two-stream agent"
    assert (report["new"], report["unused"]) == ([], [])
    assert {"img_projection.weight", "vln_bert.addlayer.0.lang_inter.dense.bias"} <= set(report["kept"])
    assert "vln_bert.vision_encoder.visn_fc.weight" in report["loaded"]
    assert any("optimiser's state is not imported" in note for note in report["notes"])
    assert report["config"]["feature_width"] == 6
    names = {path.name for path in (tmp_path / "mine").iterdir()}
    assert names == {"config.json", "model.safetensors", "kept.safetensors", "README.md", "digests.json"}
    assert set(load_file(tmp_path / "mine" / "kept.safetensors")) == set(report["kept"])
    assert Navigator.from_pretrained(tmp_path / "mine").config.cross_layers == 1


def test_inspect_writes_nothing_and_says_the_same(run: Callable, agent: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    report = json.loads(run("weights", "inspect", agent, "--json").out)
    assert sorted(tmp_path.rglob("*")) == before
    imported = json.loads(run("weights", "import", agent, tmp_path / "mine", "--json").out)
    assert {key: report[key] for key in ("loaded", "new", "unused", "kept", "config")} == {
        key: imported[key] for key in ("loaded", "new", "unused", "kept", "config")
    }
    own = json.loads(run("weights", "inspect", tmp_path / "mine", "--json").out)
    assert (own["family"], own["config"]) == ("vlnbert", report["config"])


def test_the_summary_is_readable(run: Callable, agent: Path) -> None:
    lines = run("weights", "inspect", agent, "--heads", "4").out.splitlines()
    assert lines[0] == f"{agent}: a published Recurrent VLN-BERT agent, two-stream"
    assert lines[1].strip().startswith("two-stream, 2 layers + 1 cross layers, 32 wide, 4 heads")
    assert "loaded: 83" in lines
    assert "newly initialised: none" in lines
    assert "     32  vln_bert.lalayer.*" in lines
    assert "kept beside, for an export: 20" in lines


def test_options_reach_the_navigator(run: Callable, tmp_path: Path) -> None:
    state = _bert()
    torch.save(state, tmp_path / "pytorch_model.bin")
    words = ("--backbone", "two-stream", "--cross-layers", "1", "--feature-width", "7", "--angle-width", "4")
    more = ("--object-width", "5", "--matching", "visual", "--heads", "2")
    report = json.loads(
        run("weights", "import", tmp_path / "pytorch_model.bin", tmp_path / "mine", *words, *more, "--json").out
    )
    asked = {
        "cross_layers": 1,
        "feature_width": 7,
        "angle_width": 4,
        "object_width": 5,
        "matching": "visual",
        "heads": 2,
    }
    assert report["config"].items() >= asked.items()
    assert "cls.predictions.bias" in report["unused"]
    assert report["reasons"]["cls.predictions.bias"] == "a pre-training head"
    assert "object_embedding.project.weight" in report["new"]
    summary = run("weights", "inspect", tmp_path / "pytorch_model.bin").out
    assert "cls.predictions.*  (a pre-training head)" in summary


def test_export_gives_the_agent_back(run: Callable, agent: Path, tmp_path: Path) -> None:
    run("weights", "import", agent, tmp_path / "mine")
    outcome = run("weights", "export", tmp_path / "mine", tmp_path / "back.pt")
    assert outcome.code == 0
    assert outcome.out == f"{tmp_path / 'back.pt'}: a two-stream agent, 99 tensors and 4 of its critic, epoch 3\n"
    first, second = (torch.load(path, weights_only=True) for path in (agent, tmp_path / "back.pt"))
    for part in ("vln_bert", "critic"):
        theirs, ours = first[part]["state_dict"], second[part]["state_dict"]
        assert all(torch.equal(theirs[name], ours[name]) for name in theirs.keys() | ours.keys())
    again = run("weights", "export", tmp_path / "mine", tmp_path / "again.pt", "--json")
    assert json.loads(again.out) == {"backbone": "two-stream", "epoch": 3, "model": 99, "critic": 4, "made_up": []}


def test_the_model_card_tells_where_weights_are_from(run: Callable, agent: Path, tmp_path: Path) -> None:
    run("weights", "import", agent, tmp_path / "mine")
    card = (tmp_path / "mine" / "README.md").read_text()
    assert "Imported from `agent.pt`, a published Recurrent VLN-BERT agent, two-stream." in card
    assert "| feature width | 6 |" in card
    assert str(tmp_path) not in card
    assert "license" not in card


def test_weights_that_are_no_numbers_are_refused(run: Callable, agent: Path, tmp_path: Path) -> None:
    document = torch.load(agent, weights_only=True)
    document["vln_bert"]["state_dict"]["state_proj.bias"][3] = torch.nan
    torch.save(document, agent)
    for outcome in (run("weights", "inspect", agent), run("weights", "import", agent, tmp_path / "mine")):
        assert outcome.code == 2
        assert f"{agent}: state_proj.bias: holds NaN or infinity; give other weights" in outcome.err
    assert not (tmp_path / "mine").exists()


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return builtins.open, (str(self.path), "w")


MISTAKES = {
    "no such file": (("import", "{tmp}/no.pt", "{tmp}/new"), "no.pt: no such file or folder"),
    "code": (("import", "{tmp}/trap.pt", "{tmp}/new"), "holds code"),
    "not weights": (("inspect", "{tmp}/list.pt"), "holds a list"),
    "truncated": (("import", "{tmp}/cut.pt", "{tmp}/new"), "is not a whole torch checkpoint"),
    "truncated safetensors": (("import", "{tmp}/cut.safetensors", "{tmp}/new"), "is not a whole safetensors file"),
    "no folder": (("import", "{tmp}/empty", "{tmp}/new"), "holds neither model.safetensors nor pytorch_model.bin"),
    "other backbone": (("inspect", "{agent}", "--backbone", "one-stream"), "cannot fill a one-stream backbone"),
    "in use": (("import", "{agent}", "{tmp}"), "the folder is not empty"),
    "not ours": (("export", "{agent}", "{tmp}/new"), "is not a vlnbert navigator"),
    "no heads": (("inspect", "{agent}", "--heads", "0"), "--heads 0 is too few"),
    "too wide": (
        ("inspect", "{agent}", "--object-width", "10000000000000"),
        "--object-width is 10000000000000; choose a whole number from 0 to 1,048,576",
    ),
    "another width": (("inspect", "{agent}", "--feature-width", "64"), "are made for 6; say 6 or leave it out"),
    "no vocabulary": (("inspect", "{agent}", "--vocabulary", "/nope"), "/nope: no such vocabulary; give a vocab.txt"),
    "no network": (("inspect", "owner/name"), "owner/name: no such file or folder, and the hub gave no model"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_end_in_one_line(
    run: Callable, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    torch.save({"vln_bert": Trap(tmp_path / "ran")}, tmp_path / "trap.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "cut.pt").write_bytes(agent.read_bytes()[:4000])
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    words, expected = MISTAKES[mistake]
    outcome = run("weights", *(word.format(tmp=tmp_path, agent=agent) for word in words))
    assert (outcome.code, outcome.out) == (2, "")
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("vlnbert: ")
    assert expected in lines[0]
    assert sorted(tmp_path.rglob("*")) == before


def _bert() -> dict[str, torch.Tensor]:
    """A BERT of one layer; its names are checked against the real one elsewhere."""
    config = NavigatorConfig(hidden=32, heads=4, inner=16, layers=1, vocabulary=30, positions=20, angle_width=8)
    model, _, _ = published_state_dicts(config, Navigator(config).state_dict(), {})
    state = {
        name.removeprefix("vln_bert."): tensor for name, tensor in model.items() if name.startswith("vln_bert.bert.")
    }
    return state | {"cls.predictions.bias": torch.zeros(30)}
