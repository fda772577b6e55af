"""The one loop in which agent and environment meet, and the baseline agents, which are registered from the start."""

from vlnbert.rollout import baselines

__all__ = ["baselines"]
