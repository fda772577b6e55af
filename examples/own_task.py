"""A task and a metric of one's own: stop at the very goal of a path of R2R; the teacher keeps to the path.

    python examples/own_task.py
    vlnbert --plugin examples/own_task.py train demo --data house --out run --train-on exact/train \
        --validate-on exact/val_unseen --best-on exact/val_unseen
    vlnbert --plugin examples/own_task.py evaluate --agent shortest --task exact --data house
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import torch
from torch import Tensor

import vlnbert as vln
from vlnbert.tasks.task import Described, TeacherMemory, Walked, metres_to_goal, path_teacher


@vln.register_task
class Exact(vln.R2R):
    """Follow the described path and stop less than a metre from its end."""

    name = "exact"
    max_steps = 12
    stop_distance = 1.0  # what the reward calls a right stop, in metres
    metrics = (vln.Metric("gp", "GP", unit="m", meaning="goal progress: how much nearer to the goal it ended"),)
    best_metric = "gp"  # higher is better, which a metric that is not says: higher=False

    def files(self, folder) -> dict[str, Path]:
        """R2R's own files: this task only asks something else of them."""
        return {split: path for split, path in folder.instruction_files("r2r").items() if split != "test"}

    def read(self, path: Path) -> Iterator:
        return super().read(path)  # R2R's reader, which collects the faults of a file and tells them together

    def begin_teacher(self, episodes: Described) -> TeacherMemory:
        """The path, how long it is, and how far along each row is."""
        return episodes.path, episodes.path_length, torch.zeros_like(episodes.path_length)

    def teacher(self, world, viewpoint: Tensor, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
        return path_teacher(world, viewpoint, memory)

    def arrived(self, world, viewpoint: Tensor, episodes: Described) -> Tensor:
        """[row, time] whether to stop there succeeds. Tensors in, tensors out: nothing may wait for the device."""
        return metres_to_goal(world, viewpoint, episodes) < 1.0

    def measure(self, world, episodes, trajectories: Walked) -> dict[str, Tensor]:
        """[episode] by name, each of `metrics`: once all have walked, from viewpoints [episode, hop] and lengths."""
        left = metres_to_goal(world, trajectories.viewpoint, episodes)  # [episode, hop]
        return {"gp": left[:, 0] - left[:, -1]}


if __name__ == "__main__":
    folder = Path(mkdtemp())
    data = vln.generate_house(folder / "house", scans=12)
    splits = {"train_on": "exact/train", "validate_on": "exact/val_unseen", "best_on": "exact/val_unseen"}
    run = vln.train("demo", data, folder / "run", iterations=200, warmup=20, validate_every=100, threads=1, **splits)
    print(vln.evaluate(run, split=["exact/val_unseen", "r2r/val_unseen"]))
