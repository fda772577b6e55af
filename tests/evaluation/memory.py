"""Results that are in memory, read and scored as those of a file."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vlnbert.errors import Faults
from vlnbert.evaluation.evaluate import ScoredFile, score_file
from vlnbert.evaluation.results import ResultFile, read_results
from vlnbert.tasks.episodes import Episodes
from vlnbert.world.world import World


def read_document(document: Any, faults: Faults) -> ResultFile:
    """Read a document as a result file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        path.write_text(json.dumps(document))
        return read_results(path, faults)


def score_ways(ways: dict[str, Any], episodes: Episodes, world: World, target: str | None = None) -> ScoredFile:
    """Score the viewpoints walked by each instruction, all naming one object."""
    items = [{"instr_id": id, "trajectory": list(way), "predObjId": target} for id, way in ways.items()]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        path.write_text(json.dumps(items))
        return score_file(path, episodes, world)
