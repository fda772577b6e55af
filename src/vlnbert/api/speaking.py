"""Verbs of speakers and of what they learn from: instructions for paths, their scores, augmented data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.api.arguments import checked, spread
from vlnbert.errors import UsageError, setting
from vlnbert.runtime import require_within
from vlnbert.sources.instructions import is_augmented
from vlnbert.speaker.config import Decoding, SpeakOptions

if TYPE_CHECKING:
    from vlnbert.api.runs import Run
    from vlnbert.data.data import Data
    from vlnbert.navigator import Navigator
    from vlnbert.rollout.agents import Agent, AgentFactory
    from vlnbert.rollout.policy import Policy
    from vlnbert.speaker.augmenting import AugmentedFile
    from vlnbert.speaker.speaker import Speaker
    from vlnbert.speaker.speaking import Instructions, OpenedSpeaker, SpeakerScores
    from vlnbert.tasks.made_paths import SampledPaths
    from vlnbert.tasks.word_labels import SubInstructions


@checked("speaker", "paths", "device")
@spread
def speak(
    speaker: "Run | Speaker | str | Path",
    data: "Data | str | Path | None" = None,
    split: str | None = None,
    *,
    paths: Sequence[str] | None = None,
    decoding: Decoding,
    options: SpeakOptions,
    bar: bool = True,
) -> "Instructions":
    """Turn paths into instructions: `vln.speak("runs/speaker", split="r2r/val_unseen")`.

    Each path gets one instruction. Where that is empty or has no end, it is written again if words are drawn (nucleus),
    and else left out: `left_out` names those paths.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker, or its folder or hub name.
        data: Data folder; by default the one that a run was trained on.
        split: The split whose paths to describe, such as r2r/val_unseen or, without its task, val_unseen; dev_unseen is
            made of the houses that the run kept out of its training.
        paths: Instead of a split, paths by their viewpoints: "scan:viewpoint,viewpoint,...". The agent looks along the
            first step when it starts.
        decoding: ...
        options: ...
        bar: Show progress.
    """
    from vlnbert.speaker.speaking import paths_by_name, paths_of_split
    from vlnbert.tasks.splits import full_name

    if (split is None) == (paths is None):
        raise UsageError(f"name a split or paths, and not both; for example {setting('split', 'r2r/val_unseen')}")
    opened = open_speaker(speaker, data, options)
    if split is not None:
        described = paths_of_split(opened.data, full_name(split, opened.task))
    else:
        described = paths_by_name(opened.data.world, paths or ())
    return opened.write(*described, decoding, options.batch)


@checked("speaker", "navigator", "device")
@spread
def score_speaker(
    speaker: "Run | Speaker | str | Path",
    data: "Data | str | Path | None" = None,
    split: str = "r2r/val_unseen",
    *,
    navigator: "Run | Navigator | Policy | Agent | AgentFactory | str | Path | None" = None,
    decoding: Decoding,
    options: SpeakOptions,
    bar: bool = True,
) -> "SpeakerScores":
    """Score the instructions of a speaker for a split: BLEU-4, CIDEr, perplexity, and whether they can be followed.

    The last is what counts: a navigator, best one that learned from people alone, follows the speaker's instructions,
    and people's of the same paths.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker, or its folder or hub name.
        data: Data folder; by default the one that a run was trained on.
        split: The split whose paths to describe, each once; with its task or, of a run, without.
        navigator: Who follows, as `vln.evaluate` takes an agent; by default nobody.
        decoding: ...
        options: ...
        bar: Show progress.
    """
    from vlnbert.api.runs import load_agent
    from vlnbert.evaluation.text_metrics import require_sacrebleu
    from vlnbert.evaluation.walker import Walker
    from vlnbert.speaker.speaking import score_instructions
    from vlnbert.tasks.splits import full_name

    require_sacrebleu()
    opened = open_speaker(speaker, data, options)
    split = full_name(split, opened.task)
    walker = None if navigator is None else Walker(load_agent(navigator), opened.opened, split)
    return score_instructions(opened, split, decoding, options.batch, walker)


def open_speaker(source: object, data: "Data | str | Path | None", options: SpeakOptions) -> "OpenedSpeaker":
    """A speaker, in whichever way it is given, opened with its data; of a run, with its best weights or its last."""
    from vlnbert.api.runs import Run, as_run
    from vlnbert.learning.run_folder import last_checkpoint, while_trained
    from vlnbert.plugins import load_recorded
    from vlnbert.speaker.speaker import Speaker
    from vlnbert.speaker.speaking import LoadedSpeaker, OpenedSpeaker

    source = as_run(source)
    if isinstance(source, Speaker):
        loaded = LoadedSpeaker("the speaker", source)
    elif isinstance(source, Run):
        load_recorded(source.record.plugins)
        speaker = source.speaker
        if options.checkpoint == "last":
            speaker = while_trained(source.folder, lambda run: Speaker.from_pretrained(last_checkpoint(run)))
        name = source.folder.resolve().name
        loaded = LoadedSpeaker(name, speaker, source.record.data, source.record.held_out, source.task)
    elif options.checkpoint == "last":
        raise UsageError(f"{source} is no run, so it has no last checkpoint; name a run's folder")
    elif not isinstance(source, str | Path):
        raise UsageError(f"{source!r:.60} is no speaker; give a run's folder, or what Speaker.from_pretrained gave")
    else:
        loaded = LoadedSpeaker(Path(source).resolve().name, Speaker.from_pretrained(source))
    return OpenedSpeaker(loaded, data, options.precision, options.device)


@checked()
def augment_paths(
    data: "Data | str | Path",
    out: str | Path,
    count: int | None = None,
    *,
    seed: int = 0,
    holdout: int = 0,
    holdout_seed: int = 0,
) -> "SampledPaths":
    """Write paths of R2R's kind through the train houses: shortest ones of four to six hops and at least 5 m.

    None that val_seen describes is among them, and none outside of the houses that R2R trains in.

    Args:
        data: Data folder with connectivity/ and r2r/.
        out: The file to write, new, in R2R's form without instructions.
        count: How many; all of them by default. Fewer are the first of more.
        seed: Chooses them, and the heading at each start.
        holdout: Houses of the train split to keep out, as in a training with this setting.
        holdout_seed: Chooses those houses.
    """
    from vlnbert.data.data import open_data
    from vlnbert.sources.writing import require_new, write_json
    from vlnbert.tasks.made_paths import sample_paths
    from vlnbert.tasks.splits import choose_houses
    from vlnbert.tasks.task import R2R

    require_within(
        count=(1 if count is None else count, 1, 1_000_000_000),
        seed=(seed, 0, 2**63 - 1),
        holdout=(holdout, 0, 1_000_000),
        holdout_seed=(holdout_seed, 0, 2**63 - 1),
    )
    require_new(Path(out))
    opened = open_data(data)
    world = opened.world.to("cpu")
    kept_out = choose_houses(opened.folder, (R2R.name,), holdout, holdout_seed)
    found = sample_paths(opened.folder, world, count, seed, kept_out)
    write_json(Path(out), list(found.items(world, seed)))
    return found


@checked("speaker", "keep_followed", "device")
@spread
def augment_speak(
    speaker: "Run | Speaker | str | Path",
    paths: str | Path,
    out: str | Path,
    data: "Data | str | Path | None" = None,
    *,
    tellings: int = 1,
    decoding: Decoding = Decoding("nucleus"),  # noqa: B008  # frozen
    keep_followed: "Run | Navigator | Policy | Agent | AgentFactory | str | Path | None" = None,
    within: float | None = None,
    options: SpeakOptions,
    bar: bool = True,
) -> "AugmentedFile":
    """Describe every path of a file, and write the instructions as augmented data: `r2r/told_aug.json` is r2r/told_aug.

    Instructions without words or without an end are left out and counted, as are paths that belong to an evaluation:
    those outside of the train houses, and those of val_seen. The file is written whole or not at all; what was
    interrupted starts over. A small file beside it, `told_aug.about.json`, names the speaker, and the houses that it
    had not seen. Fewer tellings are the first of more. A speaker of REVERIE describes an object that is seen where the
    path ends: the file's, or one that is drawn for each telling.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker's folder or hub name.
        paths: The file of paths, in R2R's form, as augment paths writes it; or in REVERIE's.
        out: The file to write, new, with a name that ends in _aug.json.
        data: Data folder; by default the one that a run was trained on.
        tellings: Instructions for each path, which nucleus sampling tells apart.
        decoding: ...
        keep_followed: A run, navigator or agent: what it cannot follow back is left out.
        within: Metres from the path's end within which it must stop; by default 3.
        options: ...
        bar: Show progress.
    """
    from vlnbert.api.runs import load_agent
    from vlnbert.evaluation.walker import Walker
    from vlnbert.speaker.augmenting import PathsToDescribe, require_sense

    require_sense(Path(out), tellings, decoding, within, followed=keep_followed is not None)
    opened = open_speaker(speaker, data, options)
    described = PathsToDescribe(opened, Path(paths))
    walker = None
    if keep_followed is not None:
        walker = Walker(load_agent(keep_followed), opened.opened, f"{described.task}/train")
    return described.write(Path(out), tellings, decoding, options.batch, walker, within)


@checked()
def augment_sub_instructions(data: "Data | str | Path", out: str | Path) -> "SubInstructions":
    """Cut R2R's train instructions in parts, each with the part of the path that it describes, by word labels.

    LAR2R's labels say which words are due at which viewpoint (vlnbert data fetch DIR --only landmarks). A cut lies
    where the words that are due at a viewpoint begin with an action: what was said before leads to that viewpoint, and
    what is said from there on leads on to the goal. Either part has at least 3 viewpoints and 4 words. Nothing but the
    train split is cut, and parts along a path of val_seen are left out and counted. The split r2r/sub_instructions,
    which r2r-open learns from, is made in the same way and needs no file: this is for other programs, and to look at.

    Args:
        data: Data folder with connectivity/, r2r/R2R_train.json and r2r/LAR2R_train.json.
        out: The file to write, new, in R2R's form: `r2r/R2R_sub_instructions.json` is the split r2r/sub_instructions.
    """
    from vlnbert.data.data import open_data
    from vlnbert.sources.writing import require_new, write_json
    from vlnbert.tasks.word_labels import cut_train_instructions

    if is_augmented(Path(out)):
        problem = f"{out} would be read as augmented data, which comes as tokens"
        raise UsageError(f"{problem}; choose another name, such as R2R_sub_instructions.json")
    require_new(Path(out))
    opened = open_data(data)
    world = opened.world.to("cpu")
    found = cut_train_instructions(opened.folder, world)
    write_json(Path(out), list(found.items(world)))
    return found
