"""What an episode asks: instructions as tokens, R2R and REVERIE episodes as tensors, seeded batches of them."""

from vlnbert.tasks.episodes import Episodes, load_episodes

__all__ = ["Episodes", "load_episodes"]
