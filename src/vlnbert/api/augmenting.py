"""Training data that nobody wrote: paths through the train houses, and parts of people's instructions."""

from pathlib import Path

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError
from vlnbert.runtime import require_within
from vlnbert.sources.instructions import is_augmented
from vlnbert.sources.writing import require_new, write_json
from vlnbert.tasks.made_paths import SampledPaths, sample_paths
from vlnbert.tasks.splits import choose_houses
from vlnbert.tasks.task import R2R
from vlnbert.tasks.word_labels import SubInstructions, cut_train_instructions


@checked()
def augment_paths(
    data: Data | str | Path,
    out: str | Path,
    count: int | None = None,
    *,
    seed: int = 0,
    holdout: int = 0,
    holdout_seed: int = 0,
) -> SampledPaths:
    """Write paths of R2R's kind through the train houses: shortest ones of four to six hops and at least 5 m.

    None that val_seen describes is among them, and none outside of the houses that R2R trains in.

    Args:
        data: The data folder, with connectivity/ and r2r/, or what `vln.open_data` gave.
        out: The file to write, new, in R2R's form without instructions.
        count: How many; all of them by default. Fewer are the first of more.
        seed: Chooses them, and the heading at each start.
        holdout: Houses of the train split to keep out, as in a training with this setting.
        holdout_seed: Chooses those houses.
    """
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


@checked()
def augment_sub_instructions(data: Data | str | Path, out: str | Path) -> SubInstructions:
    """Cut R2R's train instructions in parts, each with the part of the path that it describes, by word labels.

    A cut lies where the words that are due at a viewpoint begin with an action. Nothing but the train split is cut, and
    parts along a path of val_seen are left out. What is not made use of is counted in `.left_out`.

    Args:
        data: The data folder, with connectivity/, r2r/R2R_train.json and r2r/LAR2R_train.json, or what
            `vln.open_data` gave.
        out: The file to write, new, in R2R's form: `r2r/R2R_sub_instructions.json` is the split r2r/sub_instructions.
    """
    if is_augmented(Path(out)):
        problem = f"{out} would be read as augmented data, which comes as tokens"
        raise UsageError(f"{problem}; choose another name, such as R2R_sub_instructions.json")
    require_new(Path(out))
    opened = open_data(data)
    world = opened.world.to("cpu")
    found = cut_train_instructions(opened.folder, world)
    write_json(Path(out), list(found.items(world)))
    return found
