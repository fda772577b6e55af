"""A training that keeps houses out: what it learns from, what it is chosen by, and what its folder tells."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import TINY, called
from tests.learning.samples import CONFIG, SHAPE, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.learning.callbacks import read_log
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.tasks.tokens import load_tokenizer

DEV = "r2r/dev_unseen"
CHOSEN = {"validate_on": (DEV, "r2r/val_unseen"), "best_on": DEV}
EXPERIMENT = Experiment(holdout=2, navigator=SHAPE, training=replace(CONFIG, iterations=4), **CHOSEN)
WORDS = ("--holdout", 2, "--validate-on", DEV, "--best-on", DEV)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("holdout") / "house"
    generate(folder, scans=8, paths_per_scan=4)
    tokenizer = load_tokenizer(folder / "vocab.txt")
    items = json.loads((folder / "r2r" / "R2R_train.json").read_text())
    for item in items:  # as a speaker would, in every house
        item["instructions"] = item["instructions"][:1]
        item["instr_enc"] = tokenizer.encode(item["instructions"][0]).ids
    (folder / "r2r" / "prevalent_aug.json").write_text(json.dumps(items))
    return folder


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("holdout") / "trained"
    words = (*TINY, *WORDS, "--training.iterations", 6, "--training.validate-every", 2, "--training.ema", 0.9)
    outcome = called("train", "demo", "--data", house, "--out", run, *words)
    assert outcome.code == 0, outcome.err
    assert "kept out of training: " in outcome.err
    return run


def houses_learned(one: Trainer) -> list[set[str]]:
    world = one.environment.world
    starts = [split.episodes.start for split in one.batches.splits]
    return [{world.scans[place] for place in world.scan_of[start].tolist()} for start in starts]


def test_no_split_that_is_learned_from_has_them(house: Path, tmp_path: Path) -> None:
    told = list[str]()
    experiment = replace(EXPERIMENT, train_on=("r2r/train", "reverie/train", "r2r/aug"))
    one = begin_run("mine", experiment, open_data(house), tmp_path / "run", tell=told.append)
    held_out = set(read_record(tmp_path / "run").held_out)
    assert len(held_out) == 2
    learned = houses_learned(one)
    assert all(houses and not houses & held_out for houses in learned)
    assert len(one.validation[DEV].episodes) > 0
    assert any(line.startswith("kept out of training") and all(name in line for name in held_out) for line in told)
    everything = begin_run(
        "mine",
        replace(experiment, holdout=0, validate_on=("r2r/val_unseen",), best_on="r2r/val_unseen"),
        open_data(house),
        tmp_path / "all",
    )
    assert all(houses == rest | held_out for houses, rest in zip(houses_learned(everything), learned, strict=True))


def test_both_tasks_keep_out_the_same(house: Path, tmp_path: Path) -> None:
    for task in ("r2r", "reverie"):
        dev = f"{task}/dev_unseen"
        one = replace(EXPERIMENT, train_on=(f"{task}/train",), validate_on=(dev,), best_on=dev)
        begin_run("mine", one, open_data(house), tmp_path / task)
    assert len({read_record(tmp_path / task).held_out for task in ("r2r", "reverie")}) == 1


def test_who_chooses_elsewhere_is_told(house: Path, tmp_path: Path) -> None:
    told, validated = list[str](), {"validate_on": ("r2r/val_unseen",), "best_on": "r2r/val_unseen"}
    begin_run("mine", replace(EXPERIMENT, **validated), open_data(house), tmp_path / "run", tell=told.append)
    assert "the best weights are chosen on r2r/val_unseen, not on the houses kept out; see best_on" in told


def test_who_validates_in_them_is_told(house: Path, tmp_path: Path) -> None:
    """Episodes of val_seen are in houses of the train split, of which some are unseen now; of val_unseen none are."""
    told, seen = list[str](), "r2r/val_seen"
    experiment, data = replace(EXPERIMENT, validate_on=(DEV, seen, "r2r/val_unseen")), open_data(house)
    begin_run("mine", experiment, data, tmp_path / "run", tell=told.append)
    episodes, world = data.episodes(seen), data.world
    scans = [world.scans[place] for place in world.scan_of[episodes.start].tolist()]
    count = sum(scan in read_record(tmp_path / "run").held_out for scan in scans)
    assert 0 < count < len(scans)
    words = f"{count} of its {len(scans)} episodes are in houses kept out of training"
    assert [line for line in told if "unseen houses" in line] == [
        f"{seen}: {words}, so its score is partly of unseen houses"
    ]


def test_a_resumed_run_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    """Though the folder, by now, would choose others."""
    data = shutil.copytree(house, tmp_path / "data")
    begin_run("mine", EXPERIMENT, open_data(house), tmp_path / "whole").train()
    one = begin_run("mine", EXPERIMENT, open_data(data), tmp_path / "halves")
    one.stopping = True  # after one update
    one.train()
    held_out, path = read_record(tmp_path / "halves").held_out, data / "reverie" / "REVERIE_train.json"
    path.write_text(json.dumps([item for item in json.loads(path.read_text()) if item["scan"] not in held_out]))
    again = resume_run(tmp_path / "halves", open_data(data))
    assert again.progress.iteration == 1
    again.train()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))


def test_changed_instructions_are_noticed(house: Path, tmp_path: Path) -> None:
    data = shutil.copytree(house, tmp_path / "data")
    aug = replace(EXPERIMENT, train_on=("r2r/aug",))
    begin_run("mine", aug, open_data(data), tmp_path / "run").train()
    path = data / "r2r" / "R2R_train.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(DataError, match=r"r2r/R2R_train\.json changed since the run began"):
        resume_run(tmp_path / "run", open_data(data))


def test_a_record_that_names_other_houses_is_damaged(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "held_out": record["held_out"][:1]}))
    with pytest.raises(DataError, match=r"is damaged \(2 houses are kept out, 1 are named\)"):
        read_record(run)


def test_the_run_can_be_evaluated_there(house: Path, trained: Path) -> None:
    """By the command line and in Python; the scores are those of its validations, and the table says whose they are."""
    validated = [line for line in read_log(trained / "log.jsonl") if "scores" in line]
    assert {(line["best_on"], line["best_metric"]) for line in validated} == {(DEV, "spl")}
    scores = {line["iteration"]: line["scores"][DEV]["spl"] for line in validated}
    best = min(number for number, score in scores.items() if score == max(scores.values()))
    for checkpoint, number in {"best": best, "last": 6}.items():
        words = ("evaluate", trained, "--data", house, "--splits", "dev_unseen", "--checkpoint", checkpoint)
        found = json.loads(called(*words, "--json").out)[DEV]
        assert found["spl"] == pytest.approx(scores[number])
        evaluated = vln.evaluate(vln.open_run(trained), split=DEV, checkpoint=checkpoint, bar=False)
        assert evaluated.scores[DEV] == found
        assert f"after {number} updates" in evaluated.table().note
        assert evaluated.agent == {"best": "trained", "last": "trained_last"}[checkpoint]
    assert "the best averaged weights by SPL on r2r/dev_unseen" in called(*words[:-1], "best").out
    assert "the last averaged weights" in called(*words).out


def test_baselines_walk_there_too(house: Path, trained: Path) -> None:
    data = vln.open_data(house).holding_out(vln.open_run(trained).record.held_out)
    assert vln.evaluate("shortest", data, DEV, bar=False).scores[DEV]["sr"] == 1


def test_the_report_says_what_chose(trained: Path, tmp_path: Path) -> None:
    page = vln.report(trained, tmp_path / "report.html", episodes=1, bar=False).read_text()
    assert "the best averaged weights by SPL on r2r/dev_unseen, after" in page


def test_the_houses_are_listed(house: Path, trained: Path) -> None:
    listed = json.loads(called("data", "holdout", house, "--holdout", 2, "--json").out)
    assert tuple(listed) == read_record(trained).held_out
    assert listed == vln.holdout_houses(house, 2, bar=False)
    episodes = vln.open_data(house).holding_out(tuple(listed)).episodes(DEV)
    assert sum(counts["r2r/train"] for counts in listed.values()) == len(episodes)
    shown = called("data", "holdout", house, "--holdout", 2)
    assert all(name in shown.out for name in listed)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--holdout", 99, *WORDS[2:]), "99 houses held out would leave none"),
        (("--holdout", -1), "--holdout is -1; choose 0 to"),
        (WORDS[2:], "r2r/dev_unseen is made of houses that a training kept out"),
        ((*WORDS, "--train-on", DEV), "r2r/dev_unseen is kept out of training; learn from others"),
    ],
)
def test_bad_settings_are_one_line(house: Path, tmp_path: Path, words: tuple[object, ...], expected: str) -> None:
    outcome = called("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *words)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert outcome.err.startswith(f"vlnbert: {expected}")
    assert not (tmp_path / "run").exists()


def test_only_a_run_has_a_last_checkpoint(house: Path, trained: Path) -> None:
    for agent in ((trained / "best",), ("--agent", "random")):
        outcome = called("evaluate", *agent, "--data", house, "--splits", "val_unseen", "--checkpoint", "last")
        assert outcome.code == 2
        assert "is no run, so it has no last checkpoint; name a run's folder" in outcome.err
    with pytest.raises(UsageError, match="random is no run"):
        vln.evaluate("random", house, "r2r/val_unseen", checkpoint="last", bar=False)
    with pytest.raises(vln.UnknownNameError, match="checkpoint"):
        vln.evaluate(trained, house, "r2r/val_unseen", checkpoint="lst", bar=False)  # type: ignore[arg-type]


def test_a_run_whose_checkpoints_are_gone_still_walks(house: Path, trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    found = vln.evaluate(run, house, DEV, bar=False)
    assert found.table().note == "the best averaged weights by SPL on r2r/dev_unseen"
    best = Navigator.from_pretrained(run / "best").state_dict()
    assert all(torch.equal(weight, best[name]) for name, weight in vln.open_run(run).navigator.state_dict().items())
