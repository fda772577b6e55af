"""The world as tensors: graphs, panorama geometry, candidate tables, distances, next hops and feature banks."""

from vlnbert.world.banks import Bank, FeatureBank, JoinedBank
from vlnbert.world.build import build_world, open_world
from vlnbert.world.objects import ObjectBank, ObjectTable, VisibleObjects, open_object_table
from vlnbert.world.world import STOP, World

__all__ = [
    "STOP",
    "Bank",
    "FeatureBank",
    "JoinedBank",
    "ObjectBank",
    "ObjectTable",
    "VisibleObjects",
    "World",
    "build_world",
    "open_object_table",
    "open_world",
]
