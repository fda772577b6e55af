"""Tasks, their episodes as tensors, instructions as tokens, and seeded batches."""

from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.task import TASKS, Task, register_task

__all__ = ["TASKS", "Episodes", "Task", "load_episodes", "register_task"]
