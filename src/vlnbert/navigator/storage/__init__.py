"""A navigator's folder, here or on the hub: saved, opened, and told of in a model card."""

from vlnbert.navigator.storage.navigator import Navigator

__all__ = ["Navigator"]
