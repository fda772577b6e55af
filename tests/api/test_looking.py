"""Evaluating from Python: scores as a mapping, as text, as HTML, as JSON and as result files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import SPLIT
from vlnbert.evaluation.evaluate import evaluate_agent


@pytest.fixture(scope="module")
def evaluated(trained: vln.Run) -> vln.Evaluations:
    return vln.evaluate(trained, bar=False)


def test_a_run_scores_as_its_best_validation(trained: vln.Run, evaluated: vln.Evaluations) -> None:
    validated = {line["iteration"]: line["scores"] for line in trained.log if "scores" in line}
    best = validated[trained.progress.best_iteration][SPLIT]
    assert evaluated.scores[SPLIT] == pytest.approx(best)
    assert best["spl"] == trained.progress.best


def test_evaluations_are_a_mapping(evaluated: vln.Evaluations) -> None:
    assert list(evaluated) == ["r2r/val_seen", SPLIT]
    assert len(evaluated) == 2
    assert SPLIT in evaluated
    result = evaluated[SPLIT]
    assert result.scores is not None
    assert len(result.scores.sr) == len(result.episodes) == evaluated.scores[SPLIT]["episodes"]
    with pytest.raises(KeyError):
        evaluated["r2r/train"]


def test_scores_as_json(evaluated: vln.Evaluations) -> None:
    assert json.loads(evaluated.to_json()) == evaluated.scores
    assert json.loads(evaluated.to_json(indent=2)) == evaluated.scores


def test_scores_as_text_and_html(trained: vln.Run, evaluated: vln.Evaluations) -> None:
    text = str(evaluated)
    assert text == repr(evaluated) == evaluated.table().text()
    assert "\x1b" not in text
    for word in ("SR", "SPL", SPLIT, trained.folder.name, f"{100 * evaluated.scores[SPLIT]['sr']:.1f}"):  # type: ignore[operator]
        assert word in text
    html = evaluated._repr_html_()
    assert html.startswith("<table>")
    assert ">SR</th>" in html
    strange = vln.Evaluations("<b>", {f"<i>{name}": one for name, one in evaluated.items()})
    assert "<b>" not in strange._repr_html_()
    assert "<i>" not in strange._repr_html_()
    assert f"&lt;i&gt;{SPLIT}" in strange._repr_html_()


def test_result_files_score_the_same(data: vln.Data, evaluated: vln.Evaluations, tmp_path: Path) -> None:
    for split, path in zip(evaluated, evaluated.write(tmp_path / "results"), strict=True):
        assert path == tmp_path / "results" / f"{split.replace('/', '_')}_trained.json"
        for folder in (data, data.folder.root, str(data.folder.root)):
            scored = vln.score(str(path), folder, split)
            assert scored.summary == pytest.approx(evaluated.scores[split])
        assert "SPL" in str(scored)
        assert "<table>" in scored._repr_html_()


@pytest.mark.parametrize("how", ["run", "folder", "text", "navigator", "weights"])
def test_an_agent_by_any_name(how: str, trained: vln.Run, house: Path, evaluated: vln.Evaluations) -> None:
    agents = {
        "run": trained,
        "folder": trained.folder,
        "text": str(trained.folder),
        "navigator": trained.navigator,
        "weights": trained.folder / "best",
    }
    steps = trained.experiment.training.max_steps if how in ("navigator", "weights") else None
    found = vln.evaluate(agents[how], house, SPLIT, max_steps=steps, bar=False)
    assert found.scores[SPLIT] == evaluated.scores[SPLIT]


def test_batches_make_no_difference(trained: vln.Run, data: vln.Data, evaluated: vln.Evaluations) -> None:
    found = vln.evaluate(trained, data, [SPLIT], batch=3, bar=False)
    assert found.scores[SPLIT] == pytest.approx(evaluated.scores[SPLIT])


def test_a_navigator_in_training_walks_without_dropout(
    trained: vln.Run, data: vln.Data, evaluated: vln.Evaluations
) -> None:
    navigator = vln.Navigator.from_pretrained(trained.weights).train()
    for part in navigator.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.9
    steps = trained.experiment.training.max_steps
    found = vln.evaluate(navigator, data, SPLIT, max_steps=steps, bar=False)
    assert found.scores[SPLIT] == evaluated.scores[SPLIT]
    assert navigator.training, "it is left as it was"


def test_baselines(data: vln.Data) -> None:
    assert vln.evaluate("shortest", data, SPLIT, bar=False).scores[SPLIT]["sr"] == 1.0
    assert vln.evaluate("stop", data, SPLIT, bar=False).scores[SPLIT]["tl"] == 0.0
    one, same, other = (vln.evaluate("random", data, SPLIT, seed=seed, bar=False).scores for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_withheld_goals_are_walked_and_not_scored(trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    found = vln.evaluate(trained, data, ["r2r/test", SPLIT], out=tmp_path / "out", bar=False)
    assert list(found) == ["r2r/test", SPLIT]
    assert list(found.scores) == [SPLIT]
    assert found["r2r/test"].scores is None
    written = tmp_path / "out" / "r2r_test_trained.json"
    done = vln.submit(written, tmp_path / "submission.json", data, "r2r/test")
    assert done.results == len(found["r2r/test"].episodes) == len(json.loads(done.path.read_text()))


class Witness(vln.Agent):
    """Stops at once, names the first object in view, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def begin(self, batch: Any) -> None:
        self.told.append(batch)

    def act(self, observation: Any, memory: None) -> tuple[torch.Tensor, None]:
        self.observation = observation
        return torch.zeros_like(observation.state.viewpoint), memory

    def name_object(self, observation: Any, memory: None) -> torch.Tensor:
        return torch.zeros_like(observation.state.viewpoint)


class Knowing(Witness):
    """An oracle that neither reads nor sees."""

    oracle, reads_tokens, sees_features = True, False, False


def test_an_agent_of_ones_own_is_told_what_it_may_know(data: vln.Data) -> None:
    agent = Witness()
    found = vln.evaluate(agent, data, SPLIT, batch=5, bar=False)
    assert (found.agent, found.scores[SPLIT]["tl"]) == ("Witness", 0.0)
    split, told = data.split(SPLIT), agent.told
    assert sorted(torch.cat([batch.index for batch in told]).tolist()) == list(range(len(split.episodes)))
    for batch in told:
        rows, width = batch.index, batch.tokens.shape[1]
        assert len(rows) <= 5
        assert torch.equal(batch.tokens, split.tokens.ids[rows, :width])
        assert width == split.tokens.count[rows].max()
        assert batch.texts == tuple(split.episodes.texts[row] for row in rows)
        assert torch.equal(batch.state.viewpoint, split.episodes.start[rows])
        assert batch.goal is batch.path is None, "nobody peeks by accident"
    assert agent.observation.features.shape[2] == data.view_bank.width
    assert agent.observation.visible_objects is None


def test_oracles_are_told_more(data: vln.Data) -> None:
    agent = Knowing()
    vln.evaluate(agent, data, SPLIT, bar=False)
    (batch,) = agent.told
    episodes = data.episodes(SPLIT)
    assert torch.equal(batch.goal, episodes.goal)
    assert torch.equal(batch.path, episodes.path)
    assert batch.tokens.shape == (len(episodes), 0)
    assert agent.observation.features is None
    with pytest.raises(vln.UsageError, match="r2r/test withholds its goals"):
        vln.evaluate(agent, data, "r2r/test", bar=False)


def test_an_agent_of_ones_own_names_objects(data: vln.Data) -> None:
    split, agent = "reverie/val_unseen", Witness()
    found = vln.evaluate(agent, data, split, bar=False)[split]
    table, start = data.object_bank.object_table, found.episodes.start
    assert found.predicted_objects == table.ids_at(start, torch.zeros_like(start))
    assert agent.observation.visible_objects is not None
    assert vln.evaluate(Knowing(), data, split, bar=False)[split].predicted_objects is None


def test_an_agent_that_names_objects_has_to_see_them(house: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(house, tmp_path / "bare", ignore=shutil.ignore_patterns("obj*"))
    with pytest.raises(vln.DataError, match="holds no object feature file; name one"):
        vln.evaluate(Witness(), bare, "reverie/val_unseen", bar=False)
    assert vln.evaluate(Witness(), bare, SPLIT, bar=False).scores


def test_who_is_no_agent_is_told_so(data: vln.Data) -> None:
    for wrong in (object(), Witness):
        with pytest.raises(vln.UsageError, match="is no agent; give an object with begin"):
            vln.evaluate(wrong, data, SPLIT, bar=False)  # type: ignore[arg-type]
    with pytest.raises(vln.UsageError, match=r"no plugin at .*none\.py"):
        vln.evaluate("none.py:Mine", data, SPLIT, bar=False)
    with pytest.raises(vln.UsageError, match="Witness reads tokens; give those of the split"):
        evaluate_agent(data.environment, Witness(), data.episodes(SPLIT))


def test_random_walks_the_same_in_any_batches(data: vln.Data) -> None:
    whole, parts = (vln.evaluate("random", data, SPLIT, batch=batch, bar=False)[SPLIT] for batch in (None, 4))
    assert torch.equal(whole.trajectories.viewpoint, parts.trajectories.viewpoint)


@pytest.mark.parametrize("wider", [-1, 1])
def test_features_of_another_width_are_refused_in_one_line(wider: int, trained: vln.Run, data: vln.Data) -> None:
    """Whether the navigator is narrower than the views, or wider; a width that is asked for is kept."""
    width = data.view_bank.width
    navigator = vln.Navigator(replace(trained.navigator.config, feature_width=width + wider))
    navigator.tokenizer = trained.navigator.tokenizer
    with pytest.raises(vln.UsageError) as caught:
        vln.evaluate(navigator, data, SPLIT, bar=False)
    (line,) = str(caught.value).splitlines()
    told = (
        f"navigator sees views {width + wider} wide, and they are {width}; give the features that it was trained with"
    )
    assert line.startswith(told)
    cut = vln.FeatureSpec(view_width=width + wider)
    if wider < 0:
        assert line.endswith(f"; if these begin with them, cut them: view_width={width - 1}")
        assert vln.evaluate(navigator, data, SPLIT, features=cut, bar=False).scores
        return
    with pytest.raises(
        vln.UsageError, match=rf"^view_width is {width + 1}, but the features in .* are {width} wide; choo"
    ):
        vln.evaluate(navigator, data, SPLIT, features=cut, bar=False)
    with pytest.raises(
        vln.UsageError, match=rf"^view_width is {width + 1}, but the features in .* are {width} wide; choo"
    ):
        _ = vln.open_data(data, features=cut).view_bank


@pytest.mark.parametrize("rows", [-1, 128], ids=["too few", "too many"])
def test_a_vocabulary_of_another_navigator_is_refused(rows: int, trained: vln.Run, data: vln.Data) -> None:
    """One that keeps no tokenizer reads by the data's, which must be its own, and whole."""
    pieces = data.tokenizer.get_vocab_size()
    navigator = vln.Navigator(replace(trained.navigator.config, vocabulary=pieces + rows))
    told = f"navigator knows {pieces + rows} word pieces, the vocabulary has {pieces}; keep its own with it"
    with pytest.raises(vln.UsageError, match=told):
        vln.evaluate(navigator, data, SPLIT, bar=False)


def test_objects_of_another_width_are_refused_in_one_line(data: vln.Data) -> None:
    seen = vln.open_data(data, features=vln.FeatureSpec())
    config = replace(
        vln.NavigatorConfig(hidden=16, heads=2, inner=16, layers=1, matching="visual"),
        feature_width=seen.view_bank.width,
        object_width=seen.object_width - 1,
    )
    with pytest.raises(
        vln.UsageError, match=rf"sees objects {seen.object_width - 1} wide, and they are .* object_width="
    ):
        vln.evaluate(vln.Navigator(config), seen, "reverie/val_unseen", bar=False)
    spec = vln.FeatureSpec(object_width=seen.object_width + 1)
    with pytest.raises(vln.UsageError, match=r"^object_width is \d+, but the features in .*; choose at most"):
        _ = vln.open_data(data, features=spec).object_bank


def test_only_the_features_of_a_file_are_offered_to_be_cut(trained: vln.Run, data: vln.Data) -> None:
    """Channels cannot be cut: whoever sees other ones names those of the training."""
    width = vln.open_data(data, features="detections").view_bank.width
    navigator = vln.Navigator(replace(trained.navigator.config, feature_width=width))
    navigator.tokenizer = trained.navigator.tokenizer
    assert vln.evaluate(navigator, data, SPLIT, features="detections", bar=False).scores
    with pytest.raises(vln.UsageError) as caught:
        vln.evaluate(navigator, data, SPLIT, features="detection-places", bar=False)
    told = f"navigator sees views {width} wide, and they are {3 * width}"
    assert str(caught.value) == f"{told}; name the channels, or the file, that it was trained with: views=NAME"


def test_a_hub_name_is_opened_whatever_lies_here(
    trained: vln.Run, data: vln.Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the hub cannot give was mistyped."""
    fetched = tmp_path / "fetched"
    trained.navigator.save_pretrained(fetched)
    (tmp_path / "owner" / "name-v1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", lambda *_, **__: str(fetched))
    assert vln.evaluate("owner/name-v2", data, SPLIT, bar=False).agent == "name-v2"
    (fetched / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(vln.DataError, match=r"model\.safetensors"):
        vln.evaluate("owner/name-v2", data, SPLIT, bar=False)

    def refuse(*_: object, **__: object) -> str:
        raise ConnectionError("no network")

    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", refuse)
    said = "no run, navigator or agent 'owner/name-v2'; did you mean owner/name-v1?"
    with pytest.raises(vln.VlnbertError) as caught:
        vln.evaluate("owner/name-v2", data, SPLIT, bar=False)
    assert str(caught.value) == said
    with pytest.raises(vln.DataError, match=r"the hub gave no model of that name \(ConnectionError"):
        vln.evaluate("owner/something", data, SPLIT, bar=False)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (
            {"precision": "bfloat16"},
            "precision='bfloat16' is of a navigator's tokens, but random is none; leave it out",
        ),
        ({"features": "captions"}, "views was chosen, but random sees none; leave it out"),
    ],
)
def test_what_an_agent_cannot_use_is_refused(data: vln.Data, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(vln.UsageError, match=words):
        vln.evaluate("random", data, SPLIT, bar=False, **chosen)
