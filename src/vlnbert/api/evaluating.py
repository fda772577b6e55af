"""Let any agent walk the episodes of some splits, and score it: runs, navigators, baselines, agents from elsewhere."""

from collections.abc import Sequence
from pathlib import Path

from vlnbert.api.agents import load_agent
from vlnbert.api.arguments import checked
from vlnbert.api.runs import Run
from vlnbert.data.data import Data
from vlnbert.errors import setting
from vlnbert.evaluation.evaluate import Evaluations
from vlnbert.evaluation.options import Checkpoint, WalkOptions
from vlnbert.evaluation.walker import Walker
from vlnbert.features.in_memory import Features
from vlnbert.features.spec import FeatureSpec
from vlnbert.navigator import Navigator
from vlnbert.progress import quiet, say
from vlnbert.rollout.agents import Agent, AgentFactory
from vlnbert.rollout.policy import Policy
from vlnbert.runtime import Precision
from vlnbert.sources.writing import require_writable


@checked("agent", "features", "device")
def evaluate(
    agent: Run | Navigator | Policy | Agent | AgentFactory | str | Path,
    data: Data | str | Path | None = None,
    split: str | Sequence[str] = (),
    *,
    checkpoint: Checkpoint = "best",
    features: FeatureSpec | str | Path | Features | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    batch: int | None = None,
    precision: Precision = "float32",
    device: str | None = None,
    out: str | Path | None = None,
    bar: bool = True,
) -> Evaluations:
    """Let an agent walk every episode of some splits, and score it: `vln.evaluate(run, split="r2r/val_unseen")`.

    Args:
        agent: A run, whose best weights walk; a navigator, or where one is (a folder, a hub name, a published agent's
            checkpoint); an agent of your own, which has `begin` and `act` as `vln.Agent` has; or one by name: random,
            stop, shortest, what a plugin registered, or the class in a file, my.py:MyAgent.
        data: The data folder, or what `vln.open_data` gave; by default what a run was trained on.
        split: One or several, such as r2r/val_unseen; without a task, of what a run was trained for, else of r2r. By
            default val_seen and val_unseen. Test splits withhold their goals: they are walked, not scored.
            r2r/dev_unseen is made of the houses that the run kept out of its training.
        checkpoint: Which weights of a run walk: the best, or those of its last checkpoint; averaged ones in either
            case, where the run averages.
        features: What the agent sees, as `vln.open_data` takes it, where that differs from what a run was trained with;
            what was in memory is given again.
        seed: Of agents that draw lots, such as random.
        max_steps: Steps after which an episode ends; by default as in the training, else the task's: 15 in R2R.
        batch: Episodes that are walked together; by default 64 on a CPU, 1024 on a GPU, and all at once by agents that
            do not read.
        precision: Of a navigator's tokens; fastest is what multiplies faster on this device. In bfloat16 scores differ
            by rounding.
        device: Where to walk, such as cpu or cuda; by default where the data is.
        out: A folder for result files in the leaderboards' form, <task>_<split>_<agent>.json.
        bar: Show progress.
    """
    if out is not None:
        require_writable(Path(out))
    with quiet(not bar):
        options = WalkOptions(checkpoint, features, seed, max_steps, batch, precision, device)
        walker = Walker(load_agent(agent, checkpoint), data, split, options)
        evaluations = {name: walker.walk(name) for name in walker.episodes}
        result = Evaluations(walker.name, evaluations, walker.loaded.weights)
        for path in result.write(out) if out is not None else ():
            say(f"wrote {path}")
        if out is None and result.withheld:
            problem = f"{', '.join(result.withheld)}: the goals are withheld, so nothing was scored"
            say(f"{problem}; nothing was written either: {setting('out', 'DIR')} writes the result files")
        return result
