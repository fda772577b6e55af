"""What is there without a run: a tiny agent that ships with the package, and a generated house for it to walk in."""

from pathlib import Path

from vlnbert.errors import DataError
from vlnbert.house import generate
from vlnbert.progress import quiet
from vlnbert.world.cache import cache_folder

AGENT = Path(__file__).parent / "tiny-navigator"
SEED, SCANS, PATHS = 2021, 3, 40  # of the houses; the agent was trained in others
VERSION = 1  # of what the generator writes


def generated_house() -> Path:
    """Three houses in the cache folder, made on the first call; the same on every machine."""
    folder = cache_folder() / f"explorer-house-{VERSION}"
    if folder.is_dir():
        return folder
    try:
        with quiet():
            generate(folder, seed=SEED, scans=SCANS, paths_per_scan=PATHS)
    except DataError:
        if not folder.is_dir():  # else another process was first
            raise
    return folder
