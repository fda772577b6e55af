"""A data folder opened as an environment of Gymnasium."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vlnbert.data.data import Data, open_data
from vlnbert.environment.environment import Environment
from vlnbert.environment.gym import NavigationEnv
from vlnbert.features.opening import Features
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import piece_count
from vlnbert.world.objects import ObjectBank

HERE = "cpu"  # where Gymnasium's arrays are


def open_env(
    data: Data | Path | str,
    task: str = "r2r",
    split: str = "train",
    features: FeatureSpec | str | Path | Features | None = None,
    wants: Sequence[str] = (),
    max_steps: int | None = None,
    render_mode: str | None = None,
) -> NavigationEnv:
    """Open the environment of `gymnasium.make("vlnbert/R2R-v0", data=...)`.

    Args:
        data: The data folder, or data from `vln.open_data`, whose features are kept.
        task: r2r, reverie or any other.
        split: The split that episodes are of; dev_unseen of data that holds houses out.
        features: Features of views and objects, as `vln.open_data` takes them, such as captions; by default the only
            file of features that the folder has, and nothing beside directions where it has none.
        wants: Further observations: neighbours, the number of the viewpoint that each action leads to; panorama,
            all 36 views, with panorama_direction.
        max_steps: Steps after which an episode is cut off; by default the task's.
        render_mode: ansi, for a text of the possible actions.
    """
    opened = open_data(data, features, device=HERE)
    spec, folder, objects = opened.features, opened.folder, None
    views = None if spec.views is None and not folder.feature_files() else opened.view_bank
    if TASKS[task].sees_objects and opened.sees_objects:
        objects = opened.object_bank
    elif TASKS[task].sees_objects:
        codes = torch.zeros(len(opened.objects), dtype=torch.long)
        objects = ObjectBank.from_codebook(opened.objects, torch.zeros(1, 0), codes, spec.max_objects)
    environment = Environment(opened.world, views, objects, lambda: opened.panorama_bank).showing(wants)
    # The environment finds the targets among its objects itself, so the split need not open their features.
    walked = opened.seen_as(replace(spec, objects=OFF)).split(f"{task}/{split}")
    return NavigationEnv(
        environment, walked, piece_count(opened.tokenizer), max_steps=max_steps, render_mode=render_mode
    )
