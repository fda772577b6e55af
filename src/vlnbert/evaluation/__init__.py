"""How well agents do: the walker, metrics, records of episodes, result files, and files for the leaderboards."""
