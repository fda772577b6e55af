"""What an episode asks: tasks, their episodes as tensors, instructions as tokens, seeded batches."""

from vlnbert.tasks import r4r  # registers it
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.task import TASKS, Task, register_task

__all__ = ["TASKS", "Episodes", "Task", "load_episodes", "r4r", "register_task"]
