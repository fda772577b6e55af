"""What the paper reports on the splits of the real data: Recurrent VLN-BERT, arXiv:2011.13922, tables 1 and 2."""

from collections.abc import Mapping
from hashlib import blake2b

from vlnbert.tasks.episodes import Episodes
from vlnbert.world.world import World

R2R_METRICS, REVERIE_METRICS = ("tl", "ne", "sr", "spl"), ("sr", "osr", "spl", "tl", "rgs", "rgspl")
NO_START, OSCAR, PREVALENT = "paper, from nothing", "paper, from OSCAR", "paper, from PREVALENT"

# As printed: rates in percent, TL and NE in metres.
ROWS: Mapping[str, Mapping[str, str]] = {
    "r2r/val_seen": {
        NO_START: "9.78 3.92 62 59",
        OSCAR: "10.79 3.11 71 67",
        PREVALENT: "11.13 2.90 72 68",
    },
    "r2r/val_unseen": {
        NO_START: "10.31 5.10 50 46",
        OSCAR: "11.86 4.29 59 53",
        PREVALENT: "12.01 3.93 63 57",
    },
    "reverie/val_seen": {
        NO_START: "39.56 42.09 36.29 12.06 21.15 19.39",
        OSCAR: "39.85 41.32 35.86 12.85 24.46 22.28",
        PREVALENT: "51.79 53.90 47.96 13.44 38.23 35.61",
    },
    "reverie/val_unseen": {
        NO_START: "25.76 29.28 22.16 14.52 11.62 9.87",
        OSCAR: "25.53 27.66 21.06 14.35 14.20 12.00",
        PREVALENT: "30.67 35.02 24.90 16.78 18.77 15.27",
    },
}
# Of the houses and ids of the published splits: generated houses have splits of the same names.
DIGESTS = {
    "r2r/val_seen": "3cefa176755a8ad0",
    "r2r/val_unseen": "7f46c68e6839f684",
    "reverie/val_seen": "bc145d6607f90d87",
    "reverie/val_unseen": "0ef883fd804d0848",
}


def paper_rows(world: World, episodes: Episodes) -> dict[str, dict[str, str]]:
    """The paper's rows, metric by metric, where the episodes are those of a published split; else none."""
    name = f"{episodes.task}/{episodes.split}"
    if DIGESTS.get(name) != digest(world, episodes):
        return {}
    metrics = REVERIE_METRICS if episodes.task == "reverie" else R2R_METRICS
    return {agent: dict(zip(metrics, numbers.split(), strict=True)) for agent, numbers in ROWS[name].items()}


def digest(world: World, episodes: Episodes) -> str:
    """Tells splits apart by their houses and the ids of their instructions."""
    scans = [world.scans[number] for number in world.scan_of[episodes.start].tolist()]
    names = sorted(f"{scan}/{id}" for scan, id in zip(scans, episodes.ids, strict=True))
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
