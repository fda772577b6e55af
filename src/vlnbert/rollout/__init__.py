"""The one loop in which agent and environment meet, and the baseline agents, which are registered from the start."""

__all__ = ["baselines"]
