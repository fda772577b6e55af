"""A speaker's training: it learns to tell, resumes to the same bits, stops where validation does, keeps houses out."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.learning.samples import Watcher, same
from tests.processes import together
from vlnbert.data.data import Data, open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.learning.presets import presets, read_experiment, save_experiment
from vlnbert.learning.run_folder import last_checkpoint
from vlnbert.learning.run_record import read_record
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator.storage.folder import read_safetensors
from vlnbert.ranks import ALONE, Ranks
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.experiment import SpeakerExperiment
from vlnbert.speaker.model import PAD
from vlnbert.speaker.recipe import RECIPE, WORDS
from vlnbert.speaker.speaker import Speaker
from vlnbert.weights.importing import find_tokenizer
from vlnbert.weights.options import resolve_source
from vlnbert.weights.reading import read_checkpoint

SCORED = "r2r/val_unseen"
SHAPE = SpeakerConfig(
    hidden=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1, dropout=0.1, max_tokens=70, max_hops=12
)
DEMO = presets.experiment("speaker-demo", SpeakerExperiment)


def small(**training: Any) -> SpeakerExperiment:
    usual = {"iterations": 12, "batch": 4, "validate_every": 4, "report_every": 1, "ema": 0.9, "warmup": 3}
    return replace(DEMO, speaker=SHAPE, training=replace(DEMO.training, **{**usual, **training}))


def begun(house: Path, run: Path, experiment: SpeakerExperiment, **more: Any) -> Trainer:
    return begin_run("mine", experiment, open_data(house), run, **more)


def stop_after(trainer: Trainer, updates: int) -> None:
    def advanced(iteration: int) -> None:
        trainer.stopping = iteration >= updates

    trainer.advanced = advanced


def test_a_resumed_run_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    """With dropout and averaged weights, stopped between validations."""
    begun(house, tmp_path / "whole", small()).train()
    halves = begun(house, tmp_path / "halves", small())
    stop_after(halves, 6)
    halves.train()
    assert halves.progress.iteration == 6
    torch.rand(5)
    again = resume_run(tmp_path / "halves", open_data(house))
    assert again.progress.iteration == 6
    again.train()
    for name in ("model.safetensors", "trainer.safetensors"):
        one, other = (read_safetensors(last_checkpoint(tmp_path / run) / name)[0] for run in ("whole", "halves"))
        assert same(one, other)
    assert read_record(tmp_path / "halves").experiment == read_record(tmp_path / "whole").experiment


def test_the_best_has_the_lowest_perplexity_and_is_the_average(house: Path, tmp_path: Path) -> None:
    trainer, watcher = begun(house, tmp_path / "run", small()), Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    found = {iteration: scores[SCORED]["perplexity"] for iteration, scores in watcher.scores.items()}
    assert trainer.progress.best == min(found.values())
    assert found[trainer.progress.best_iteration] == trainer.progress.best
    best = Speaker.from_pretrained(tmp_path / "run/best").state_dict()
    assert trainer.progress.best_iteration == 12, "it still learns"
    assert all(torch.equal(best[name], weight) for name, weight in trainer.averaged.average.items())
    assert not torch.equal(best["word.weight"], trainer.model.word.weight)
    assert set(watcher.losses[12]) == {"total", "cross_entropy"}


def test_it_stops_where_the_validation_does(house: Path, tmp_path: Path) -> None:
    """At such a rate nothing is learned, and after two validations without a lower perplexity it ends."""
    trainer = begun(house, tmp_path / "run", small(iterations=400, learning_rate=1.0, patience=2, ema=0.0))
    trainer.train()
    since = trainer.progress.iteration - (trainer.progress.best_iteration or 0)
    assert since == 8
    assert trainer.progress.iteration < 400


def unigram_perplexity(data: Data) -> float:
    """That of the train split's words, each with one more than it has, on the validation split."""
    learned, scored = (data.split(name).tokens.ids[:, 1:].flatten().tolist() for name in ("r2r/train", SCORED))
    counts = Counter(token for token in learned if token != PAD)
    total = sum(counts.values()) + data.tokenizer.get_vocab_size()
    return float(np.exp(-np.mean([np.log((counts[token] + 1) / total) for token in scored if token != PAD])))


def test_a_toy_that_every_speaker_must_solve(house: Path, tmp_path: Path) -> None:
    """In a generated house it soon knows far more of the next word than how often words are said."""
    shape = replace(SHAPE, hidden=32, inner=64, dropout=0.0)
    experiment = small(iterations=60, batch=16, validate_every=60, learning_rate=1e-2, ema=0.0)
    trainer, watcher = begun(house, tmp_path / "run", replace(experiment, speaker=shape)), Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    assert watcher.scores[60][SCORED]["perplexity"] < 0.3 * unigram_perplexity(open_data(house))


def test_houses_kept_out_are_not_learned_from(tmp_path: Path) -> None:
    told: list[str] = []
    house = tmp_path / "house"
    generate(house, scans=5, paths_per_scan=4)
    dev = replace(small(), holdout=1, validate_on=("r2r/dev_unseen",), best_on="r2r/dev_unseen")
    trainer = begun(house, tmp_path / "run", dev, tell=told.append)
    [kept_out] = read_record(tmp_path / "run").held_out
    world = trainer.environment.world

    def houses(split: Any) -> set[str]:
        return {world.scans[number] for number in world.scan_of[split.episodes.start].tolist()}

    assert kept_out not in set.union(*map(houses, trainer.batches.splits))
    assert houses(trainer.validation["r2r/dev_unseen"]) == {kept_out}
    learned = torch.unique(torch.cat([split.tokens.ids.flatten() for split in trainer.batches.splits]))
    assert set(trainer.model.spoken.nonzero().flatten().tolist()) <= set(learned.tolist()), "nor are its words said"
    assert any(line.startswith(f"kept out of training: {kept_out}") for line in told)


def test_reverie_shows_the_target(house: Path, tmp_path: Path) -> None:
    scored = "reverie/val_unseen"
    one = replace(small(), train_on=("reverie/train", "r2r/train"), validate_on=(scored,), best_on=scored)
    trainer = begun(house, tmp_path / "run", one)
    assert trainer.model.encoder.target is not None
    before = trainer.model.encoder.target.weight.detach().clone()
    trainer.train()
    assert not torch.equal(before, trainer.model.encoder.target.weight)
    assert Speaker.from_pretrained(tmp_path / "run/best").config.object_width > 0


def test_an_update_does_not_wait(
    house: Path, tmp_path: Path, no_waiting: Callable[[], AbstractContextManager[None]]
) -> None:
    trainer = begun(house, tmp_path / "run", small())
    inputs = trainer.batches[0]
    with no_waiting():
        trainer.learner(*inputs)[0].backward()


def learned_together(ranks: Ranks, house: Path, folder: Path) -> dict[str, Any]:
    experiment = replace(small(iterations=6, ema=0.0, validate_every=6), speaker=replace(SHAPE, dropout=0.0))
    trainer, watcher = begun(house, folder, experiment, ranks=ranks), Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    found = {name: weight.detach().numpy() for name, weight in trainer.model.state_dict().items()}
    return {"weights": found, "scores": watcher.scores[6][SCORED]["perplexity"]}


def test_two_learn_what_one_would(house: Path, tmp_path: Path) -> None:
    alone = learned_together(ALONE, house, tmp_path / "one")
    first, second = together(2, tmp_path, learned_together, house, tmp_path / "two")
    for name, weight in alone["weights"].items():
        np.testing.assert_array_equal(first["weights"][name], second["weights"][name])
        np.testing.assert_allclose(first["weights"][name], weight, atol=2e-4)
    assert first["scores"] == second["scores"] == pytest.approx(alone["scores"], rel=1e-3)


def test_broken_paths_are_left_out_and_named(tmp_path: Path, house: Path) -> None:
    """A step between viewpoints that no edge joins: counted, named, left out."""
    own = tmp_path / "house"
    shutil.copytree(house, own)
    file = own / "r2r/R2R_train.json"
    items = json.loads(file.read_text())
    longest = max(items, key=lambda item: len(item["path"]))
    del longest["path"][1:-1]
    file.write_text(json.dumps(items))
    told: list[str] = []
    trainer = begun(own, tmp_path / "run", small(), tell=told.append)
    [line] = [line for line in told if "not connected" in line]
    assert line.startswith("r2r/train: 3 paths are not connected, and left out: ")
    ids = {name.rpartition("_")[0] for name in trainer.batches.splits[0].episodes.ids}
    assert str(longest["path_id"]) not in ids
    assert len(ids) == len(items) - 1


def test_words_of_a_bert(house: Path, tmp_path: Path) -> None:
    """Its embeddings and its vocabulary, if that is the data's; of another vocabulary it is refused."""
    checkpoint = read_checkpoint(resolve_source("all-MiniLM-L6-v2"))
    (words,) = (tensor for name, tensor in checkpoint.tensors.items() if name.endswith(WORDS))
    tokenizer = find_tokenizer(checkpoint, None, len(words))
    assert tokenizer is not None
    assert words.shape == (tokenizer.get_vocab_size(), 384)
    asked = replace(small(), start="all-MiniLM-L6-v2")
    with pytest.raises(UsageError, match="all-MiniLM-L6-v2 has another vocabulary, of 30,522 word pieces, than"):
        begun(house, tmp_path / "run", asked)
    data = open_data(house).seen_as(asked.seen)
    data.tokenizer = tokenizer
    speaker = RECIPE.initial(asked, data)
    assert speaker.config.hidden == 384
    assert torch.equal(speaker.word.weight, words)
    with pytest.raises(UsageError, match="hidden is 16, but the data or the words to start from decided on 384"):
        RECIPE.initial(asked, data, asked=("speaker.hidden",))
    with pytest.raises(UsageError, match="384 wide, which 5 heads cannot share"):
        RECIPE.initial(replace(asked, speaker=SpeakerConfig(hidden=15, heads=5)), data)


def test_a_speaker_to_start_from(house: Path, tmp_path: Path) -> None:
    begun(house, tmp_path / "first", small()).train()
    again = begun(house, tmp_path / "second", replace(small(), start=str(tmp_path / "first")))
    best = Speaker.from_pretrained(tmp_path / "first/best")
    assert torch.equal(again.model.word.weight, best.word.weight)
    with pytest.raises(DataError):
        begun(house, tmp_path / "third", replace(small(), start=str(tmp_path / "nowhere")))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"train_on": ("r2r/test",)}, "withholds its goals"),
        ({"speaker": replace(SHAPE, max_hops=2)}, "the speaker reads at most 2; let it read more: max_hops="),
    ],
)
def test_what_cannot_be_learned_is_refused(house: Path, tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        begun(house, tmp_path / "run", replace(small(), **change))
    assert not (tmp_path / "run/run.json").exists()


def test_experiments_of_speakers_are_kept_in_files(tmp_path: Path) -> None:
    assert read_experiment(save_experiment(small(), tmp_path / "mine.json")).experiment == small()
    (tmp_path / "other.json").write_text(json.dumps({"preset": "speaker-open", "speaker.dropout": 0.1}))
    other = read_experiment(tmp_path / "other.json")
    usual = presets.experiment("speaker-open", SpeakerExperiment)
    assert other.experiment == replace(usual, speaker=replace(usual.speaker, dropout=0.1))
    assert other.asked == ("speaker.dropout",)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_updates_learn_what_plain_ones_do(house: Path, tmp_path: Path) -> None:
    losses = []
    for graphs in (False, True):
        experiment = small(graphs=graphs, precision="bfloat16", iterations=24, validate_every=24)
        one, watcher = replace(experiment, speaker=replace(SHAPE, dropout=0.0)), Watcher()
        trainer = begin_run("mine", one, open_data(house, device="cuda"), tmp_path / str(graphs))
        trainer.callbacks = [watcher]
        trainer.train()
        losses.append([watcher.losses[update]["total"] for update in range(1, 25)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.02)
