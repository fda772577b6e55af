"""What `help()` shows of the classes that people write against: every field, with its shape where it is a tensor."""

import pydoc
import re
from dataclasses import fields

import pytest

import vlnbert as vln
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import Walked
from vlnbert.world.world import World

TOLD = (Batch, EpisodeBatch, EpisodeRecord, Episodes, Walked, World, vln.Metric, vln.Rollout, vln.Decision)


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_help_shows_every_field(kind: type) -> None:
    shown = pydoc.render_doc(kind, renderer=pydoc.plaintext).partition("Attributes:")[2]
    told = dict(re.findall(r"^ \|\s+(\w+): (.+)$", shown.partition("\n |  \n")[0], re.MULTILINE))
    known = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]  # they are dataclasses
    assert list(told) == list(known), "in their order, and no others"
    without = [
        name
        for name, of in known.items()
        if "Tensor" in of and not re.match(r"\[\w+( \+ 1)?(, \w+( \+ 1)?)*\]", told[name])
    ]
    assert without == [], "a tensor's words begin with its shape"
