"""What an experiment trains, a navigator or a speaker: made, opened again from a checkpoint, put before its trainer."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from vlnbert.data.data import Data
from vlnbert.data.shown import as_kept
from vlnbert.errors import DataError, UsageError, listed, setting
from vlnbert.learning.checkpoints import Trained, unfilled_navigator, unfilled_speaker
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.navigator_trainer import NavigatorTrainer
from vlnbert.learning.run_record import RunRecord
from vlnbert.learning.speaker_experiment import AnyExperiment, SpeakerExperiment
from vlnbert.learning.speaker_start import initial_speaker
from vlnbert.learning.speaker_trainer import SpeakerTrainer
from vlnbert.learning.start import initial_navigator, kept_by_start, trained_shape
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import Limits
from vlnbert.ranks import Ranks
from vlnbert.sources.word_labels import read_word_labels
from vlnbert.speaker import Paths, Speaker
from vlnbert.speaker.paths import connected
from vlnbert.tasks.alignment import LABELLED, align_words
from vlnbert.tasks.holdout import without_houses
from vlnbert.tasks.splits import Split, task_and_split
from vlnbert.tasks.sub_instructions import is_cut_from_train, labels_of_parts


def initial_model(experiment: AnyExperiment, data: Data, asked: Collection[str] = ()) -> Trained:
    """What an experiment trains, before its first update; `asked` are the places of settings that somebody chose."""
    if isinstance(experiment, SpeakerExperiment):
        return initial_speaker(experiment, data, asked)
    return initial_navigator(experiment, data, asked)


def unfilled_model(experiment: AnyExperiment, checkpoint: Path) -> Trained:
    """The same in the shape of a checkpoint's; `load_checkpoint` must give it weights."""
    speaks = isinstance(experiment, SpeakerExperiment)
    return unfilled_speaker(checkpoint) if speaks else unfilled_navigator(checkpoint)


def as_trained(experiment: AnyExperiment, model: Trained) -> AnyExperiment:
    """The experiment with the shape that is trained, as a run's folder keeps it."""
    if isinstance(experiment, SpeakerExperiment):
        assert isinstance(model, Speaker)
        return replace(experiment, speaker=model.config)
    assert isinstance(model, Navigator)
    return replace(experiment, navigator=trained_shape(experiment, model))


def start_notes(experiment: AnyExperiment, model: Trained) -> Iterator[str]:
    """In words, what weights to start from keep although the experiment has it otherwise."""
    if isinstance(experiment, Experiment) and isinstance(model, Navigator):
        yield from kept_by_start(experiment.navigator, model)


def make_trainer(record: RunRecord, run: Path, data: Data, model: Trained, ranks: Ranks) -> Trainer:
    """The trainer of a run, its splits opened."""
    experiment = record.experiment
    if isinstance(experiment, SpeakerExperiment):
        assert isinstance(model, Speaker)
        return _speaker_trainer(record, experiment, run, data, model, ranks)
    assert isinstance(model, Navigator)
    return _navigator_trainer(record, experiment, run, data, model, ranks)


def _navigator_trainer(
    record: RunRecord, experiment: Experiment, run: Path, data: Data, navigator: Navigator, ranks: Ranks
) -> NavigatorTrainer:
    tokenizer = navigator.tokenizer or data.tokenizer
    navigator.limits = Limits(experiment.training.max_steps, experiment.max_tokens)
    navigator.features = as_kept(experiment.features, sees_objects=navigator.config.object_width > 0)
    splits = {name: data.split(name, tokenizer, experiment.max_tokens) for name in experiment.splits}
    own = tokenizer.encode("").ids[0] if hasattr(navigator.backbone, "tokenizer") else None  # no BERT's, perhaps
    for name, split in splits.items():
        if own is not None and bool((split.tokens.ids[:, 0] != own).any()):
            raise UsageError(f"{name} brings tokens of another tokenizer than the navigator's; leave it out")
        if split.tokens.ids.shape[1] > navigator.config.positions:
            longest, most = split.tokens.ids.shape[1], navigator.config.positions
            problem = f"{name} has {longest} tokens, the navigator reads at most {most}"
            raise UsageError(f"{problem}; cut them: {setting('max_tokens', most)}")
        _require_scored(name, split)
    notes = list[str]()
    if experiment.aligns_words:
        splits, notes = _aligned(splits, data, tokenizer)
    trainer = NavigatorTrainer(
        run,
        navigator.float().to(data.device),
        data.environment,
        train=[without_houses(data.world, splits[name], record.held_out) for name in experiment.train_on],
        validation={name: splits[name] for name in experiment.validate_on},
        config=experiment.training,
        best_on=experiment.best_on,
        ranks=ranks,
        card={"preset": record.preset},
    )
    trainer.notes = notes
    return trainer


def _aligned(splits: Mapping[str, Split], data: Data, tokenizer: Tokenizer) -> tuple[dict[str, Split], list[str]]:
    """Splits with the words to attend to, by the labels of the data folder; and what does not fit, line by line.

    Parts that are cut from train have labels of their own.
    """
    path, whole = data.folder.word_labels, splits[LABELLED]
    labels = read_word_labels(path)
    found, report = align_words(whole, labels, tokenizer, data.world)
    if found.aligned is None or not found.aligned.any():
        remedy = f"do without: {setting('training.objective.alignment', 0)}, or fetch the file again"
        raise DataError(path, f"no label is of a word that the navigator reads in {whole.name}", remedy)
    aligned = {**splits, LABELLED: found}
    for name, split in splits.items():
        if is_cut_from_train(data.folder, *task_and_split(name)):
            own = labels_of_parts(split.episodes, whole.episodes, labels)
            aligned[name], _ = align_words(split, own, tokenizer, data.world)
    return aligned, [f"{LABELLED}: {line}" for line in report.lines()]


def _speaker_trainer(
    record: RunRecord, experiment: SpeakerExperiment, run: Path, data: Data, speaker: Speaker, ranks: Ranks
) -> SpeakerTrainer:
    splits, notes = dict[str, Split](), list[str]()
    for name in experiment.splits:
        split = data.split(name, speaker.tokenizer, speaker.config.max_tokens)
        _require_scored(name, split)
        hops = int(split.episodes.path_length.max())
        if hops > speaker.config.max_hops:
            problem = f"{name} has paths of {hops} viewpoints, the speaker reads at most {speaker.config.max_hops}"
            raise UsageError(f"{problem}; let it read more: {setting('speaker.max_hops', hops)}")
        whole = connected(data.world, Paths.of(split.episodes)).cpu()
        if not whole.all():
            broken = (~whole).nonzero().flatten().tolist()
            ids = listed([split.episodes.ids[row] for row in broken], 3)
            notes.append(f"{name}: {len(broken):,} paths are not connected, and left out: {ids}")
            split = split.select(whole.nonzero().flatten())
        if not len(split.episodes):
            raise UsageError(f"{name} has no path that is connected; choose another split")
        splits[name] = split
    trainer = SpeakerTrainer(
        run,
        speaker.float().to(data.device),
        data.environment,
        train=[without_houses(data.world, splits[name], record.held_out) for name in experiment.train_on],
        validation={name: splits[name] for name in experiment.validate_on},
        config=experiment.training,
        best_on=experiment.best_on,
        ranks=ranks,
        card={"preset": record.preset},
    )
    trainer.notes = notes
    return trainer


def _require_scored(name: str, split: Split) -> None:
    if not split.episodes.scored:
        raise UsageError(f"{name} withholds its goals, so there is nothing to learn or to score; leave it out")
