"""`vln.augment_speak`: told paths as a file that our reader takes, without leaks; filtered; and what it refuses."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY
from tests.api.test_speaking import SHAPE
from tests.conftest import TinyData
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.sources.instructions import read_augmented
from vlnbert.speaker.decoding import Generated, InstructionGenerator
from vlnbert.tasks.made_paths import find_leaks

Items = list[dict[str, Any]]
QUIET: dict[str, Any] = {"bar": False}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of its own, since files are added to it."""
    folder = tmp_path_factory.mktemp("told") / "house"
    generate(folder, scans=4, paths_per_scan=8)
    return folder


@pytest.fixture(scope="module")
def data(house: Path) -> vln.Data:
    return vln.open_data(house)


@pytest.fixture(scope="module")
def spoken(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    return vln.train("speaker-demo", data, tmp_path_factory.mktemp("told") / "speaker", **QUIETLY, **SHAPE)


@pytest.fixture(scope="module")
def paths(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("told") / "paths.json"
    vln.augment_paths(data, file, 40)
    return file


@pytest.fixture(scope="module")
def told(spoken: vln.Run, paths: Path, house: Path) -> vln.AugmentedFile:
    """As the split r2r/told_aug."""
    return vln.augment_speak(spoken, paths, house / "r2r/told_aug.json", tellings=2, **QUIET)


def items(file: Path) -> Items:
    return json.loads(file.read_text())


def human(house: Path, task: str, split: str) -> Items:
    return items(house / task / f"{task.upper()}_{split}.json")


def test_every_path_is_told_so_many_times(told: vln.AugmentedFile, paths: Path) -> None:
    known, written = {item["path_id"]: item for item in items(paths)}, items(told.path)
    assert (told.paths, told.written) == (40, len(written))
    assert told.written + sum(told.left_out.values()) == 80
    assert told.written > 60
    assert len({item["path_id"] for item in written}) == len(written)
    for item in written:
        of = known[item["path_id"].rpartition("_")[0]]
        assert {name: item[name] for name in ("scan", "path", "heading")} == {
            name: of[name] for name in ("scan", "path", "heading")
        }
        assert item["distance"] == pytest.approx(of["distance"])
        assert len(item["instructions"]) == 1
    assert len({item["instructions"][0] for item in written}) > 1
    assert {len(item["instr_enc"]) for item in written} == {80}, "readers stack them"


def test_it_is_a_split_whose_tokens_are_the_texts(told: vln.AugmentedFile, data: vln.Data) -> None:
    assert "r2r/told_aug" in data.splits
    split = data.split("r2r/told_aug")
    assert len(split.episodes) == told.written == len(list(read_augmented(told.path)))
    marks = {data.tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]")}
    for text, ids in zip(split.episodes.texts, split.tokens.ids.tolist(), strict=True):
        assert ids[0] == data.tokenizer.token_to_id("[CLS]")
        assert text.replace(" ", "") == "".join(
            data.tokenizer.id_to_token(one).removeprefix("##") for one in ids if one and one not in marks
        )


def test_fewer_tellings_are_the_first_of_more_in_any_batch(
    told: vln.AugmentedFile, spoken: vln.Run, paths: Path, tmp_path: Path
) -> None:
    once = vln.augment_speak(spoken, paths, tmp_path / "once_aug.json", batch=7, **QUIET)
    assert items(once.path) == items(told.path)[: once.written]
    other = vln.augment_speak(spoken, paths, tmp_path / "other_aug.json", seed=1, **QUIET)
    assert items(other.path) != items(once.path)


def test_no_evaluation_is_in_what_is_written(
    told: vln.AugmentedFile, paths: Path, house: Path, data: vln.Data, spoken: vln.Run, tmp_path: Path
) -> None:
    """Ids, paths and houses; also where the file of paths has all of them."""
    every = [item for split in ("train", "val_seen", "val_unseen") for item in human(house, "r2r", split)]
    (tmp_path / "every.json").write_text(json.dumps(every))
    mixed = vln.augment_speak(spoken, tmp_path / "every.json", tmp_path / "every_aug.json", **QUIET)
    seen, unseen = human(house, "r2r", "val_seen"), human(house, "r2r", "val_unseen")
    assert mixed.left_out["of an evaluation"] == len(seen) + len(unseen)
    closed = {item["scan"] for split in ("val_unseen", "test") for item in human(house, "r2r", split)}
    described = {(item["scan"], *item["path"]) for item in seen}
    ids = {f"{item['path_id']}_{k}" for item in (*seen, *unseen) for k in range(len(item["instructions"]))}
    assert closed
    for file in (paths, told.path, mixed.path):
        for item in items(file):
            assert item["scan"] not in closed
            assert (item["scan"], *item["path"]) not in described
            assert item["path_id"] not in ids
    for split in ("val_seen", "val_unseen"):
        assert bool(find_leaks(data.folder, data.world, data.episodes(f"r2r/{split}")).any.all())
    assert not find_leaks(data.folder, data.world, data.episodes("r2r/train")).any.any()
    with pytest.raises(DataError, match=r"holds no path to learn from: 8 of 8 are in houses that nobody trains in"):
        vln.augment_speak(spoken, house / "r2r/R2R_val_unseen.json", tmp_path / "never_aug.json", **QUIET)
    assert not (tmp_path / "never_aug.json").exists()


class EveryOther:
    """Goes to the goal where the path has an even number of viewpoints, and stays elsewhere."""

    reads_tokens, sees_features, oracle = False, False, True

    def begin(self, batch: Any) -> Any:
        self.world = self.data_world
        even = torch.tensor([len(dict.fromkeys(path)) % 2 == 0 for path in batch.path.tolist()])
        return torch.where(even, batch.goal, batch.state.viewpoint)

    def act(self, observation: Any, memory: Any) -> Any:
        return self.world.slot_toward(observation.state.viewpoint, memory), memory


def test_what_is_not_followed_is_left_out(
    told: vln.AugmentedFile, spoken: vln.Run, paths: Path, data: vln.Data, tmp_path: Path
) -> None:
    everything = vln.augment_speak(spoken, paths, tmp_path / "all_aug.json", keep_followed="shortest", **QUIET)
    assert items(everything.path) == items(told.path)[: everything.written]
    assert "not followed" not in everything.left_out
    with pytest.raises(UsageError, match=r"nothing to write, .*not followed; train the speaker longer"):
        vln.augment_speak(spoken, paths, tmp_path / "none_aug.json", keep_followed="stop", **QUIET)
    assert not list(tmp_path.glob("*none*")), "nothing half-written"
    wide = vln.augment_speak(spoken, paths, tmp_path / "wide_aug.json", keep_followed="stop", within=1e6, **QUIET)
    assert wide.written == everything.written
    agent = EveryOther()
    agent.data_world = data.world  # type: ignore[attr-defined]
    some = vln.augment_speak(spoken, paths, tmp_path / "some_aug.json", keep_followed=agent, **QUIET)  # type: ignore[arg-type]
    expected = [item for item in items(everything.path) if len(item["path"]) % 2 == 0]
    assert items(some.path) == expected
    assert some.left_out["not followed"] == everything.written - len(expected) > 0


def test_who_told_it_is_said_beside_it(
    told: vln.AugmentedFile, spoken: vln.Run, paths: Path, data: vln.Data, tmp_path: Path
) -> None:
    about = json.loads(told.path.with_name("told_aug.about.json").read_text())
    assert about["speaker"] == "speaker"
    assert about["held_out"] == []
    assert (about["decoding"]["method"], about["decoding"]["seed"]) == ("nucleus", 0)
    assert (about["paths"], about["tellings"], about["instructions"]) == (40, 2, told.written)
    assert about["bytes"] == told.path.stat().st_size
    assert not [name for name in data.splits if "about" in name]
    vln.augment_speak(spoken.speaker, paths, tmp_path / "own_aug.json", data, keep_followed="shortest", **QUIET)
    about = json.loads((tmp_path / "own_aug.about.json").read_text())
    assert (about["speaker"], about["held_out"], about["keep_followed"]) == ("the speaker", None, "shortest")


def test_houses_kept_out_are_the_same_for_all(
    spoken: vln.Run, paths: Path, data: vln.Data, house: Path, tmp_path: Path
) -> None:
    """Of speaker, of the navigator that follows, and of the training on what was told."""
    kept_out = {"holdout": 1, "validate_on": ("r2r/dev_unseen",), "best_on": "r2r/dev_unseen"}
    speaker = vln.train("speaker-demo", data, tmp_path / "dev", **QUIETLY, **SHAPE, **kept_out)
    shape = {"hidden": 16, "heads": 2, "inner": 32, "iterations": 2, "validate_every": 2, "batch": 4, "max_steps": 4}
    people = vln.train("demo", data, tmp_path / "people", **QUIETLY, **shape)
    out = house / "r2r/dev_aug.json"
    for navigator in (people, people.navigator):
        with pytest.raises(UsageError, match=r"kept other houses out, so r2r/dev_unseen is not the same for both"):
            vln.augment_speak(speaker, paths, out, keep_followed=navigator, **QUIET)
    assert not list(out.parent.glob("*dev_aug*"))
    vln.augment_speak(speaker, paths, out, keep_followed="shortest", **QUIET)
    assert json.loads(out.with_name("dev_aug.about.json").read_text())["held_out"] == list(speaker.record.held_out)
    both = {"train_on": ("r2r/train", "r2r/dev_aug"), **kept_out}
    dev = vln.train("demo", data, tmp_path / "both", **QUIETLY, **shape, **both)
    with pytest.raises(UsageError, match=r"speaker and both kept other houses out"):
        vln.augment_speak(spoken, paths, tmp_path / "other_aug.json", keep_followed=dev, **QUIET)
    out.unlink()
    vln.augment_speak(spoken, paths, out, **QUIET)  # which had seen all houses
    with pytest.raises(UsageError, match=r"r2r/dev_aug was told by speaker, which learned in houses that are kept out"):
        vln.train("demo", data, tmp_path / "leaking", **QUIETLY, **shape, **both)
    out.unlink()


def test_a_navigator_may_follow(spoken: vln.Run, paths: Path, data: vln.Data, tmp_path: Path) -> None:
    shape = {"hidden": 16, "heads": 2, "inner": 32, "iterations": 2, "validate_every": 2, "batch": 4, "max_steps": 4}
    run = vln.train("demo", data, tmp_path / "navigator", **QUIETLY, **shape)
    found = vln.augment_speak(
        spoken, paths, tmp_path / "told_aug.json", keep_followed=run, within=1e6, decoding="greedy", **QUIET
    )
    assert found.written > 0


def without_a_viewpoint(item: dict[str, Any]) -> None:
    del item["path"][2]


def foreign(item: dict[str, Any]) -> None:
    item["path"][1] = "attic"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_a_viewpoint, r"paths.json: path sampled_0_0 is not connected: no step leads from"),
        (foreign, r"sampled_0_0: viewpoint attic is not in the graph"),
        (lambda item: item.update(path=item["path"][:1]), r"'path' has no step; give two viewpoints or more"),
        (lambda item: item.update(path_id="sampled_0_1"), r"path sampled_0_1: occurs twice"),
        (
            lambda item: item.update(path=item["path"][:2] * 40),
            r"paths.json: path sampled_0_0 has 80 viewpoints; the speaker reads at most \d+: leave out what is longer",
        ),
    ],
    ids=["jump", "foreign", "no step", "twice", "long"],
)
def test_paths_that_nobody_can_walk(spoken: vln.Run, paths: Path, tmp_path: Path, change: Any, words: str) -> None:
    changed = items(paths)[:3]
    change(changed[0])
    (tmp_path / "paths.json").write_text(json.dumps(changed))
    with pytest.raises(vln.VlnbertError, match=words):
        vln.augment_speak(spoken, tmp_path / "paths.json", tmp_path / "told_aug.json", **QUIET)
    assert not (tmp_path / "told_aug.json").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"out": "told.json"}, r"told.json would not be read as augmented data; .* ends so: told_aug.json"),
        ({"out": "there_aug.json"}, r"there_aug.json: is there already; remove it, or write to another file"),
        ({"paths": "empty.json"}, r"empty.json: holds no paths; make some with: vlnbert augment paths"),
        ({"paths": "none.json"}, r"none.json: no such file of paths"),
        (
            {"tellings": 2, "decoding": "greedy"},
            r"tellings=2 would be the same 2 times by greedy; draw words: decoding",
        ),
        ({"tellings": 0}, r"tellings"),
        ({"within": 2.0}, r"within=2.0 is of a navigator that follows; name it: keep_followed"),
        ({"within": -1.0, "keep_followed": "stop"}, r"within=-1.0 is no distance"),
    ],
    ids=["name", "existing", "empty", "missing", "same", "none", "nobody", "negative"],
)
def test_mistakes(spoken: vln.Run, paths: Path, tmp_path: Path, given: dict[str, Any], words: str) -> None:
    (tmp_path / "there_aug.json").write_text("[]")
    (tmp_path / "empty.json").write_text("[]")
    named = {"paths": str(paths), "out": "told_aug.json"} | given
    file, out = tmp_path / named.pop("paths"), tmp_path / named.pop("out")
    with pytest.raises(vln.VlnbertError, match=words) as raised:
        vln.augment_speak(spoken, file, out, **named, **QUIET)
    assert "\n" not in str(raised.value)
    assert (tmp_path / "there_aug.json").read_text() == "[]"


def test_what_is_interrupted_starts_over(
    told: vln.AugmentedFile, spoken: vln.Run, paths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = InstructionGenerator.generate

    def interrupted(self: InstructionGenerator, *given: Any, repetition: int, **named: Any) -> Generated:
        if repetition == 1:
            raise KeyboardInterrupt
        return generate(self, *given, repetition=repetition, **named)

    out = tmp_path / "out" / "told_aug.json"
    with monkeypatch.context() as patch:
        patch.setattr(InstructionGenerator, "generate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vln.augment_speak(spoken, paths, out, tellings=2, **QUIET)
    assert not list(out.parent.iterdir())
    vln.augment_speak(spoken, paths, out, tellings=2, **QUIET)
    assert out.read_bytes() == told.path.read_bytes()


def test_empty_and_endless_are_counted(data: vln.Data, spoken: vln.Run, paths: Path, tmp_path: Path) -> None:
    """A speaker that ends at once, and one that never does."""
    for bias, why in ((1e4, "40 empty"), (-1e4, "40 without an end")):
        mute = deepcopy(spoken.speaker)
        with torch.no_grad():
            mute.bias[mute.marks[1]] = bias
        with pytest.raises(UsageError, match=f"nothing to write, .*: 0 instructions of 40 paths; left out: {why};"):
            vln.augment_speak(mute, paths, tmp_path / "told_aug.json", data, **QUIET)


def test_another_vocabulary(spoken: vln.Run, tiny: TinyData, paths: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has another vocabulary|knows views"):
        vln.augment_speak(spoken, paths, tmp_path / "told_aug.json", tiny.root, **QUIET)


def test_reverie_s_objects_are_drawn_or_the_file_s(data: vln.Data, house: Path, paths: Path, tmp_path: Path) -> None:
    """Where nothing is seen at the end, nothing is told."""
    splits = {"train_on": ("reverie/train",), "validate_on": ("reverie/val_unseen",), "best_on": "reverie/val_unseen"}
    changes = {**SHAPE, **splits, "features.objects": None}
    run = vln.train("speaker-demo", data, tmp_path / "speaker", **QUIETLY, **changes)
    assert run.speaker.config.object_width > 0
    drawn = vln.augment_speak(run, paths, house / "reverie/drawn_aug.json", tellings=2, **QUIET)
    objects, world = data.objects, data.world
    for item in items(drawn.path):
        goal = world.find(item["scan"], item["path"][-1])
        assert objects.index(goal, item["objId"]) >= 0
        assert item["path_id"].split("_")[-2] == item["objId"]
    first, second = ({item["objId"] for item in items(drawn.path) if item["path_id"].endswith(end)} for end in "01")
    assert first != second, "another telling may be of another object"
    split = data.split("reverie/drawn_aug")
    assert list(split.episodes.targets) == [item["objId"] for item in items(drawn.path)]
    own = vln.augment_speak(run, house / "reverie/REVERIE_train.json", tmp_path / "own_aug.json", **QUIET)
    known = {item["id"]: str(item["objId"]) for item in human(house, "reverie", "train")}
    assert all(known[item["path_id"].rpartition("_")[0]] == item["objId"] for item in items(own.path))
    kept = vln.augment_speak(run, paths, tmp_path / "kept_aug.json", keep_followed="shortest", **QUIET)
    assert kept.written == sum(item["path_id"].endswith("_0") for item in items(drawn.path))
    (house / "reverie/drawn_aug.json").unlink()
