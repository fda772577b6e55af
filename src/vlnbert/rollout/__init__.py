"""The one loop in which agent and environment meet, and the baseline agents."""
