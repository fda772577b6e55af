"""`vlnbert evaluate`: let an agent walk a split, and score it."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import Flag, show, split_of_task
from vlnbert.data.spec import FeatureSpec
from vlnbert.runtime import Precision


def _known_agents(default: str) -> str:
    """What the help says behind --agent; who asks for it can wait for what is registered."""
    from vlnbert.rollout.agents import AGENTS

    return f"(known: {', '.join(AGENTS)})"


def evaluate(
    run: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="RUN")]] = None,
    *,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    agent: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint=_known_agents)] = None,
    task: Annotated[str | None, tyro.conf.arg(metavar="TASK")] = None,
    splits: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--split"])] = ("val_seen", "val_unseen"),
    checkpoint: Literal["best", "last"] = "best",
    features: FeatureSpec = FeatureSpec(),  # noqa: B008  # frozen
    seed: int = 0,
    max_steps: int | None = None,
    batch: int | None = None,
    precision: Precision = "float32",
    device: str = "cpu",
    out: Path | None = None,
    json: Flag = False,
    per_episode: Flag = False,
) -> None:
    """Let a navigator, a baseline or an agent of your own walk every episode of some splits, and print its scores.

    What SR, SPL and the others mean stands in docs/glossary.md; vlnbert score says it beside each.

    Example: vlnbert evaluate --agent random --task r2r --splits val_unseen --data data

    Example: vlnbert evaluate runs/r2r-open --splits val_unseen

    Example: vlnbert evaluate runs/r2r-open --data data --splits val_unseen --checkpoint last

    Example: vlnbert evaluate my-navigator --data data --features.views data/features/resnet.hdf5

    Example: vlnbert evaluate --agent examples/own_agent.py:MyAgent --data data

    Args:
        run: A run's folder, whose best weights walk; or any navigator: its folder, a hub name, or a published agent's
            checkpoint.
        data: Folder with connectivity/ and the task's instructions; by default the one that a run was trained on.
        agent: Instead of a navigator: random (R2R's: a random heading, then five steps forward), random-reverie
            (REVERIE's: stays, or takes nine steps ahead), stop (stays where it starts), shortest (knows the goal: what
            the graph allows), follow (knows the described path), what a plugin registered, or the class in a file or
            module, my.py:MyAgent.
        task: r2r, reverie, r4r or a plugin's; by default what a run was trained for, else r2r. The baseline agents name
            no object.
        splits: The splits to walk, with or without their task. Test splits withhold their goals: they are walked and
            written, not scored. dev_unseen is made of the houses that a run kept out of its training.
        checkpoint: Which weights of a run walk: the best, or those of its last checkpoint; averaged ones in either
            case, where the run averages.
        features: What the agent sees; by default what a run was trained with.
        seed: Of agents that draw lots, such as random.
        max_steps: Steps after which an episode ends; by default as in the training, else the task's: 15 in R2R.
        batch: Episodes that are walked together; by default 64 on a CPU, 1024 on a GPU, and all at once by agents that
            do not read.
        precision: Of a navigator's tokens; fastest is what multiplies faster on this device. In bfloat16 scores differ
            by rounding.
        device: Where the tensors are, such as cpu or cuda.
        out: Folder for result files, <task>_<split>_<agent>.json, in the leaderboards' form.
        json: Print one JSON object, keyed by split, instead of a table.
        per_episode: Print that JSON object of single episodes: by split and id, how each ended and its scores.
    """
    from json import dumps

    from vlnbert.api import evaluating
    from vlnbert.api.agents import as_run, usual_task
    from vlnbert.errors import UsageError
    from vlnbert.rollout.agents import find_agent
    from vlnbert.tasks.splits import full_name

    if (run is None) == (agent is None):
        raise UsageError("name a navigator or an --agent, and not both; for example --agent random")
    if not splits:
        raise UsageError("no split to walk; for example --splits val_unseen")
    chosen = as_run(run) if run else find_agent(agent or "")
    asked = task or usual_task(chosen)
    names = [split_of_task(split, asked) if task else full_name(split, asked) for split in splits]
    found = evaluating.evaluate(
        chosen,
        data,
        names,
        checkpoint=checkpoint,
        features=features,
        seed=seed,
        max_steps=max_steps,
        batch=batch,
        precision=precision,
        device=device,
        out=out,
    )
    if json or per_episode:
        told = found.per_episode if per_episode else found.scores
        print(dumps({name.removeprefix(f"{asked}/"): one for name, one in told.items()}))
    elif found.scores:
        show(found.table())
