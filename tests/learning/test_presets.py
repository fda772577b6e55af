"""The menu of experiments: every preset can be kept and read back, and differs from its base as its name says."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from vlnbert.data.inventory import NEEDS
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.learning.presets import Preset, presets
from vlnbert.learning.run_folder import read_log
from vlnbert.records import from_plain, to_plain
from vlnbert.speaker.experiment import SpeakerExperiment
from vlnbert.tasks.task import TASKS

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "measured"
PRESETS = tuple(presets.values())
BY_NAME = {preset.name: preset for preset in PRESETS}


def differences(one: Any, other: Any, place: str = "") -> dict[str, tuple[Any, Any]]:
    """The settings in which two experiments differ, by their whole names."""
    found: dict[str, tuple[Any, Any]] = {}
    for field in fields(one):
        mine, yours, name = getattr(one, field.name), getattr(other, field.name), f"{place}{field.name}"
        if is_dataclass(mine):
            found |= differences(mine, yours, f"{name}.")
        elif mine != yours:
            found[name] = (mine, yours)
    return found


IN_QUARTERS = {"training.batch": (16, 4), "training.accumulate": (1, 4)}
UNSHAPED = {"training.rewards.fidelity": (True, False), "training.rewards.departure": (True, False)}
TWO_STREAM = {
    "navigator.backbone": ("one-stream", "two-stream"),
    "navigator.layers": (12, 9),
    "navigator.cross_layers": (0, 4),
    "navigator.hidden_dropout": (0.3, 0.1),
}
# preset, its base, and all in which it differs from it
VARIANTS = [
    ("r2r-open-scratch", "r2r-open", {"start": ("all-MiniLM-L6-v2", None)}),
    ("r2r-one-stream-unmatched", "r2r-one-stream", {"navigator.matching": ("cross-modal", "off")}),
    ("r2r-one-stream-unshaped", "r2r-one-stream", UNSHAPED),
    (
        "r2r-one-stream-emb-attn",
        "r2r-one-stream",
        {"navigator.language_attention": ("once", "embeddings"), **IN_QUARTERS},
    ),
    (
        "r2r-one-stream-init-attn",
        "r2r-one-stream",
        {"navigator.language_attention": ("once", "initial"), **IN_QUARTERS},
    ),
    (
        "r2r-one-stream-re-attn",
        "r2r-one-stream",
        {"navigator.language_attention": ("once", "previous"), **IN_QUARTERS},
    ),
    ("r2r-two-stream", "r2r-one-stream", TWO_STREAM),
    ("r2r-two-stream-unmatched", "r2r-two-stream", {"navigator.matching": ("cross-modal", "off")}),
    ("r2r-two-stream-unshaped", "r2r-two-stream", UNSHAPED),
    (
        "reverie-one-stream",
        "r2r-one-stream",
        {
            "train_on": (("r2r/train", "r2r/aug"), ("reverie/train",)),
            "validate_on": (("r2r/val_seen", "r2r/val_unseen"), ("reverie/val_seen", "reverie/val_unseen")),
            "best_on": ("r2r/val_unseen", "reverie/val_unseen"),
            "navigator.matching": ("cross-modal", "visual"),
            "training.batch": (16, 8),
            "training.iterations": (300_000, 200_000),
            "training.objective.grounding_rows": ("all", "teacher-forced"),
        },
    ),
    ("reverie-two-stream", "reverie-one-stream", TWO_STREAM),
]
# presets of our own, their bases, and the settings that may differ, whose values are matters of tuning
WHERE = {"train_on", "validate_on", "best_on"}
PACE = {"training.iterations", "training.validate_every"}
SHARES = {"training.split_weights", "training.final_split_weights"}
MORE = {  # made of R2R's instructions in r2r-open
    *SHARES,
    "training.flip",
    "training.objective.student_forcing",
    "training.objective.alignment",
}
OWN = [
    ("demo-reverie", "demo", {*WHERE, "navigator.matching", "training.objective.grounding"}),
    ("demo-both", "demo-reverie", {"train_on", "validate_on", *PACE}),
    (
        "reverie-open",
        "r2r-open",
        {
            *WHERE,
            *SHARES,
            "navigator.matching",
            "training.iterations",
            "training.objective.student_forcing",
            "training.objective.grounding",
            "features.objects",
            "features.max_objects",
        },
    ),
    (
        "r2r-open-laptop",
        "r2r-open",
        {"train_on", "validate_on", *MORE, *PACE, "training.batch", "training.precision"},
    ),
    ("r4r-open", "r2r-open", {*WHERE, *MORE, "training.iterations"}),
    ("r2r-open-told", "r2r-open", {"train_on", *SHARES, "training.iterations", "training.learning_rate"}),
    ("speaker-reverie-open", "speaker-open", {*WHERE, "features.objects", "features.max_objects"}),
]


def test_names_are_unique_and_described() -> None:
    assert len(BY_NAME) == len(PRESETS)
    assert all(preset.description for preset in PRESETS)


def test_needs_are_known() -> None:
    assert {need for preset in PRESETS for need in preset.experiment.needs} <= {*NEEDS, *TASKS, "r2r told_aug"}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_presets_survive_json(preset: Preset) -> None:
    assert from_plain(type(preset.experiment), json.loads(json.dumps(to_plain(preset.experiment)))) == preset.experiment


@pytest.mark.parametrize(("name", "base", "expected"), VARIANTS, ids=[name for name, *_ in VARIANTS])
def test_variants_differ_as_their_names_say(name: str, base: str, expected: dict[str, tuple[Any, Any]]) -> None:
    assert differences(BY_NAME[base].experiment, BY_NAME[name].experiment) == expected


@pytest.mark.parametrize(("name", "base", "expected"), OWN, ids=[name for name, *_ in OWN])
def test_our_own_differ_in_nothing_else(name: str, base: str, expected: set[str]) -> None:
    assert set(differences(BY_NAME[base].experiment, BY_NAME[name].experiment)) == expected


def test_every_preset_is_a_variant_or_a_base() -> None:
    """A new one must be added above."""
    bases = {"demo", "r2r-open", "r2r-one-stream", "speaker-demo", "speaker-open"}
    assert set(BY_NAME) - {name for name, *_ in (*VARIANTS, *OWN)} == bases


@pytest.mark.parametrize(("name", "task"), [("speaker-open", "r2r"), ("speaker-reverie-open", "reverie")])
def test_an_open_speaker_stops_on_houses_of_train(name: str, task: str) -> None:
    """On those that --holdout 6 keeps out of a navigator's training, so on nothing that navigators report."""
    speaker = presets.experiment(name, SpeakerExperiment)
    assert speaker.splits == (f"{task}/train", f"{task}/dev_unseen")
    assert speaker.best_on == f"{task}/dev_unseen"
    assert (speaker.holdout, speaker.holdout_seed) == (6, 0)
    assert speaker.training.patience > 0


def test_a_preset_is_a_navigator_s_or_a_speaker_s() -> None:
    assert presets.experiment("speaker-open", SpeakerExperiment).speaker.hidden == 384
    assert presets.navigator("r2r-open").navigator.hidden == 384
    with pytest.raises(UsageError, match="r2r-open trains a navigator"):
        presets.experiment("r2r-open", SpeakerExperiment)
    with pytest.raises(UsageError, match="speaker-open trains a speaker"):
        presets.navigator("speaker-open")


@pytest.mark.parametrize("name", ["r2r-open", "r2r-open-told", "reverie-open"])
def test_a_preset_learns_as_long_as_its_measured_run(name: str) -> None:
    """By the log that docs/results.md draws: its last update, and those at which it was validated."""
    training = presets.navigator(name).training
    validated = [line["iteration"] for line in read_log(MEASURED / f"{name}.jsonl") if "scores" in line]
    assert validated == list(range(training.validate_every, training.iterations + 1, training.validate_every))
    assert validated[-1] == training.iterations


def test_the_paper_s_recipe() -> None:
    """Section 4 and appendix C: R2R and augmented data, 300,000 updates of 16 rows at 1e-5, imitation at 0.2."""
    experiment = BY_NAME["r2r-one-stream"].experiment
    assert experiment.train_on == ("r2r/train", "r2r/aug")
    training = experiment.training
    assert (training.iterations, training.batch, training.learning_rate, training.schedule) == (
        300_000,
        16,
        1e-5,
        "constant",
    )
    assert (training.objective.imitation, training.objective.student_forcing, training.rewards.unit) == (
        0.2,
        0.0,
        "hops",
    )
    assert (experiment.navigator.hidden, experiment.navigator.layers) == (768, 12)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_needs_say_what_is_read(preset: Preset) -> None:
    """Who has what a preset needs can train it; what it does not need is not read."""
    experiment, seen = preset.experiment, preset.experiment.features
    needs = set(experiment.needs)
    assert set(TASKS) & needs == set(experiment.tasks)
    assert ("boxes" in needs) == ("reverie" in experiment.tasks)
    assert ("captions" in needs) == ("captions" in (seen.views or "") or seen.objects == "names")
    assert ("features" in needs) == (seen.views is None)
    assert ("object features" in needs) == ("reverie" in experiment.tasks and seen.objects is None)
    assert ("augmented" in needs) == any(name.endswith("/aug") for name in experiment.train_on)


def test_a_mistyped_name_is_answered_with_near_ones() -> None:
    assert presets["r2r-open"] is BY_NAME["r2r-open"]
    with pytest.raises(UnknownNameError, match="no preset 'r2r-two-steam'; did you mean r2r-two-stream"):
        presets["r2r-two-steam"]
