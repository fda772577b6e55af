"""`vlnbert bench`: speed, measured where it matters."""

from vlnbert.cli.bench import evaluate, explore, growth, navigator, objects, speak, train, world

__all__ = ["evaluate", "explore", "growth", "navigator", "objects", "speak", "train", "world"]
