"""A data folder as Gymnasium's environments see it: views and objects as the folder has them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vlnbert.data.data import Data, open_data
from vlnbert.data.own import Features
from vlnbert.data.spec import OFF, FeatureSpec
from vlnbert.environment.environment import Environment
from vlnbert.environment.gym import NavigationEnv
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import piece_count
from vlnbert.world.banks import Bank
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
    """What `gymnasium.make("vlnbert/R2R-v0", data=...)` gives.

    Args:
        data: The data folder, or what `vln.open_data` gave; features that were named there hold.
        task: r2r, reverie or any other.
        split: The split that episodes are of; dev_unseen of data that holds houses out.
        features: What is seen, as `vln.open_data` takes it, such as captions; by default the only file of features that
            the folder has, and nothing beside directions where it has none.
        wants: What is seen beside that: neighbours, the number of the viewpoint that each action leads to; panorama,
            all 36 views, with panorama_direction.
        max_steps: Steps after which an episode is cut off; by default the task's.
        render_mode: ansi, for a text of what may be done.
    """
    opened = open_data(data, features, device=HERE)
    objects = _object_bank(opened) if TASKS[task].sees_objects else None
    environment = Environment(opened.world, _view_bank(opened), objects, lambda: opened.panorama_bank).showing(wants)
    # The environment finds the targets among its objects itself, so the split need not open their features.
    walked = opened.seen_as(replace(opened.features, objects=OFF)).split(f"{task}/{split}")
    return NavigationEnv(
        environment, walked, piece_count(opened.tokenizer), max_steps=max_steps, render_mode=render_mode
    )


def _view_bank(data: Data) -> Bank | None:
    """What views look like; nothing where nobody says and the folder has no file of it."""
    unsaid = data.features.views is None and not data.folder.feature_files()
    return None if unsaid else data.view_bank


def _object_bank(data: Data) -> ObjectBank:
    """The objects with their features; without any where nobody says and the folder has no file, or they are off."""
    if data.sees_objects and (bank := data.object_bank) is not None:
        return bank
    codes = torch.zeros(len(data.objects), dtype=torch.long)
    return ObjectBank.from_codebook(data.objects, torch.zeros(1, 0), codes, data.features.max_objects)
