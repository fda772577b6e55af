"""Verbs of speakers: write instructions for paths, and score them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.api.arguments import checked, spread
from vlnbert.errors import UsageError, setting
from vlnbert.progress import quiet
from vlnbert.speaker.config import Decoding, SpeakOptions

if TYPE_CHECKING:
    from vlnbert.api.runs import Run
    from vlnbert.data.data import Data
    from vlnbert.navigator import Navigator
    from vlnbert.rollout.agents import Agent, AgentFactory
    from vlnbert.rollout.policy import Policy
    from vlnbert.speaker.scores import SpeakerScores
    from vlnbert.speaker.speaker import Speaker
    from vlnbert.speaker.speaking import Instructions, OpenedSpeaker


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
    with quiet(not bar):
        opened = open_speaker(speaker, data, options)
        if split is not None:
            known = paths_of_split(opened.data, full_name(split, opened.task))
        else:
            known = paths_by_name(opened.data.world, paths or ())
        return opened.write(known, decoding, options.batch)


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
    from vlnbert.api.agents import load_agent
    from vlnbert.evaluation.text_metrics import require_sacrebleu
    from vlnbert.evaluation.walker import Walker
    from vlnbert.speaker.scores import score_instructions
    from vlnbert.tasks.splits import full_name

    require_sacrebleu()
    with quiet(not bar):
        opened = open_speaker(speaker, data, options)
        split = full_name(split, opened.task)
        walker = None if navigator is None else Walker(load_agent(navigator), opened.opened, split)
        return score_instructions(opened, split, decoding, options.batch, walker)


def open_speaker(source: object, data: "Data | str | Path | None", options: SpeakOptions) -> "OpenedSpeaker":
    """A speaker, in whichever way it is given, opened with its data; of a run, with its best weights or its last."""
    from vlnbert.api.agents import as_run
    from vlnbert.api.runs import Run
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
