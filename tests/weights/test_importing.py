"""Published agents: in and out again, bit for bit."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from vlnbert.errors import DataError, UsageError
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.storage.folder import Limits
from vlnbert.weights.exporting import export_weights
from vlnbert.weights.importing import import_weights, inspect_weights, load_weights
from vlnbert.weights.options import ImportOptions

BACKBONES = ["one-stream", "two-stream"]
PARTS = ("vln_bert", "critic")
MISSING_VOCABULARY = "no vocabulary lies beside the weights; vocabulary=FILE keeps one with the navigator"


@pytest.fixture(params=BACKBONES)
def agent(request: pytest.FixtureRequest, samples: Any) -> dict[str, Any]:
    return samples.agent(request.param)


def saved(agent: dict[str, Any], tmp_path: Path, name: str = "agent.pt", **how: Any) -> Path:
    torch.save(agent, tmp_path / name, **how)
    return tmp_path / name


def round_trip(source: Path) -> dict[str, Any]:
    import_weights(source, source.with_suffix(".folder"))
    export_weights(source.with_suffix(".folder"), source.with_suffix(".back"))
    return torch.load(source.with_suffix(".back"), weights_only=True)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for part in PARTS:
        ours, theirs = found[part]["state_dict"], expected[part]["state_dict"]
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            assert ours[name].dtype == tensor.dtype
            assert torch.equal(ours[name].view(torch.uint8), tensor.view(torch.uint8)), name


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "old format"])
def test_every_tensor_comes_back(agent: dict[str, Any], tmp_path: Path, zipped: bool) -> None:
    agent["vln_bert"]["state_dict"]["action_LayerNorm.bias"][:3] = torch.tensor([1e-42, -0.0, 3e38])
    found = round_trip(saved(agent, tmp_path, _use_new_zipfile_serialization=zipped))
    assert_same(found, agent)
    assert {part: found[part]["epoch"] for part in PARTS} == {"vln_bert": 5, "critic": 5}


@pytest.mark.parametrize("wrapped", [("vln_bert", "critic"), ("vln_bert",)])
def test_wrapped_names_come_back_plain(agent: dict[str, Any], tmp_path: Path, wrapped: tuple[str, ...]) -> None:
    parallel = copy.deepcopy(agent)
    for part in wrapped:
        state = parallel[part]["state_dict"]
        parallel[part]["state_dict"] = {f"module.{name}": tensor for name, tensor in state.items()}
    source = saved(parallel, tmp_path)
    assert any("module." in note for note in inspect_weights(source).notes)
    assert_same(round_trip(source), agent)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_come_back(agent: dict[str, Any], tmp_path: Path, dtype: torch.dtype) -> None:
    for part in PARTS:
        state = agent[part]["state_dict"]
        agent[part]["state_dict"] = {name: tensor.to(dtype) for name, tensor in state.items()}
    assert_same(round_trip(saved(agent, tmp_path)), agent)


@settings(max_examples=6)
@given(backbone=st.sampled_from(BACKBONES), language=st.integers(1, 12), cross=st.integers(1, 3))
def test_any_depth_comes_back(
    samples: Any, tmp_path_factory: pytest.TempPathFactory, backbone: str, language: int, cross: int
) -> None:
    agent = samples.agent(backbone, language, cross)
    assert_same(round_trip(saved(agent, tmp_path_factory.mktemp("depth"))), agent)


def test_the_report_accounts_for_every_key(agent: dict[str, Any], tmp_path: Path) -> None:
    report = inspect_weights(saved(agent, tmp_path))
    names = [name for part in PARTS for name in agent[part]["state_dict"]]
    assert sorted([*report.loaded, *report.kept]) == sorted(names)
    assert (report.new, report.unused) == ([], {})
    assert sum("optimiser" in note for note in report.notes) == 2
    assert any("heads" in note for note in report.notes)
    never_used = [name for name in names if "lang_" in name.split(".")[3:4] or ".lang_" in name]
    if never_used:
        never_used += [name for name in names if name.startswith(("img_projection", "cand_LayerNorm"))]
    assert sorted(report.kept) == sorted(never_used)


def test_the_configuration_is_read_from_the_shapes(agent: dict[str, Any], tmp_path: Path) -> None:
    config = inspect_weights(saved(agent, tmp_path), ImportOptions(heads=2)).config
    two = "vln_bert.pooler.dense.bias" in agent["vln_bert"]["state_dict"]
    assert config == NavigatorConfig(
        backbone="two-stream" if two else "one-stream",
        hidden=16,
        heads=2,
        inner=24,
        layers=3,
        cross_layers=2 if two else 0,
        vocabulary=30,
        positions=20,
        feature_width=6,
        angle_width=8,
        critic_width=10,
        hidden_dropout=0.1 if two else 0.3,
    )


def test_a_folder_is_a_navigator(agent: dict[str, Any], tmp_path: Path) -> None:
    source = saved(agent, tmp_path)
    report = import_weights(source, tmp_path / "folder", ImportOptions(heads=8))
    navigator = Navigator.from_pretrained(tmp_path / "folder")
    assert navigator.config == report.config
    assert navigator.config.heads == 8
    loaded = load_weights(source, ImportOptions(heads=8)).navigator
    assert all(torch.equal(a, b) for a, b in zip(navigator.parameters(), loaded.parameters(), strict=True))
    words = agent["vln_bert"]["state_dict"].get("vln_bert.embeddings.word_embeddings.weight")
    if words is not None:
        assert torch.equal(navigator.state_dict()["backbone.embeddings.words.weight"], words)


def test_an_agent_can_become_another(agent: dict[str, Any], tmp_path: Path) -> None:
    """An R2R agent as the start of a REVERIE one: what has no place there is named."""
    wish = ImportOptions(matching="visual", object_width=4)
    report = inspect_weights(saved(agent, tmp_path), wish)
    assert [name.rpartition("vis_lang_LayerNorm")[2] for name in report.unused] == [".weight", ".bias"]
    assert {name.split(".")[0] for name in report.new} == {"object_embedding"}


def test_an_agent_can_be_cut(samples: Any, tmp_path: Path) -> None:
    report = inspect_weights(saved(samples.agent("two-stream"), tmp_path), ImportOptions(layers=2, cross_layers=1))
    assert (report.config.layers, report.config.cross_layers, report.new) == (2, 1, [])
    assert {".".join(name.split(".")[1:3]) for name in report.unused} == {"lalayer.2", "addlayer.1"}
    assert all("addlayer.0." in name for name in report.kept if "addlayer" in name)


def test_new_weights_follow_the_seed(samples: Any, tmp_path: Path) -> None:
    source = saved(samples.oscar(), tmp_path)
    before = torch.random.get_rng_state()
    first, again, other = (
        load_weights(source, ImportOptions(seed=seed)).navigator.critic[0].weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_navigator_that_never_was_published_is_filled_up(tmp_path: Path) -> None:
    config = NavigatorConfig("two-stream", 16, 4, 24, 2, 2, 30, 20, 6, 8, critic_width=10)
    navigator = Navigator(config)
    navigator.save_pretrained(tmp_path / "mine")
    done = export_weights(tmp_path / "mine", tmp_path / "mine.pt")
    assert len(done.made_up) == 2 * 16 + 4
    state = torch.load(tmp_path / "mine.pt", weights_only=True)["vln_bert"]["state_dict"]
    assert all(torch.isfinite(tensor).all() for tensor in state.values())
    again = load_weights(tmp_path / "mine.pt", ImportOptions(heads=4)).navigator
    assert all(torch.equal(a, b) for a, b in zip(navigator.parameters(), again.parameters(), strict=True))


def test_kept_tensors_that_do_not_fit_are_named(samples: Any, tmp_path: Path) -> None:
    import_weights(saved(samples.agent("two-stream"), tmp_path), tmp_path / "folder")
    (tmp_path / "folder" / "digests.json").unlink()
    kept = load_file(tmp_path / "folder" / "kept.safetensors")
    save_file(kept | {"img_projection.weight": torch.zeros(16, 3)}, tmp_path / "folder" / "kept.safetensors")
    with pytest.raises(DataError, match=r"kept.safetensors: img_projection.weight: has shape 16 x 3 where 16 x 14"):
        export_weights(tmp_path / "folder", tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


@pytest.mark.parametrize(
    "change", [{"object_width": 3, "matching": "visual"}, {"matching": "off"}, {"language_attention": "previous"}]
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    Navigator(NavigatorConfig(hidden=8, heads=2, inner=8, layers=1, vocabulary=9, **change)).save_pretrained(
        tmp_path / "a"
    )
    with pytest.raises(DataError, match="which the published format cannot hold") as caught:
        export_weights(tmp_path / "a", tmp_path / "a.pt")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "a.pt").exists()


def test_an_agent_fills_its_own_backbone_alone(samples: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot fill a one-stream backbone"):
        inspect_weights(saved(samples.agent("two-stream"), tmp_path), ImportOptions(backbone="one-stream"))


def test_an_export_tells_what_no_weight_does(tmp_path: Path) -> None:
    """Heads and limits come back; other readers of the format find their two parts as ever."""
    navigator = Navigator(NavigatorConfig("two-stream", 64, 2, 24, 2, 2, 30, 20, 6, 8, critic_width=10))
    navigator.limits = Limits(max_steps=12)
    navigator.save_pretrained(tmp_path / "mine")
    export_weights(tmp_path / "mine", tmp_path / "mine.pt")
    document = torch.load(tmp_path / "mine.pt", weights_only=True)
    assert document.pop("vlnbert") == {"heads": 2, "max_steps": 12}
    assert {part: set(entry) for part, entry in document.items()} == {key: {"epoch", "state_dict"} for key in PARTS}
    other = inspect_weights(tmp_path / "mine.pt", ImportOptions(heads=4))
    assert "4 heads, as requested; the weights come with 2" in other.notes
    report = import_weights(tmp_path / "mine.pt", tmp_path / "again")
    assert (report.config.heads, report.notes[-1:]) == (2, [MISSING_VOCABULARY])
    assert Navigator.from_pretrained(tmp_path / "again").limits == Limits(max_steps=12)
    assert load_weights(tmp_path / "mine.pt", ImportOptions(heads=4)).navigator.config.heads == 4


@pytest.mark.parametrize("told", [None, 3, {"heads": "many", "max_steps": -1, "more": [1]}, {}])
def test_what_else_stands_beside_an_agent_does_no_harm(samples: Any, tmp_path: Path, told: Any) -> None:
    found = load_weights(saved({**samples.agent("two-stream"), "vlnbert": told}, tmp_path))
    assert found.navigator.limits == Limits()
    assert any("the number of heads" in note for note in found.report.notes)
