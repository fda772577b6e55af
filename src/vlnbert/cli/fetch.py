"""`vlnbert data fetch`: the open data, from its public repositories into a data folder."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.cli.options import Flag, show
from vlnbert.fetching.manifest import GITHUB, PARTS

if TYPE_CHECKING:
    from vlnbert.fetching.fetch import FetchReport

PRESET = "r2r-open"  # that the open data is enough for


def _known_parts(default: str) -> str:
    return f"(known: {', '.join(PARTS)}; default: all)"


def fetch_data(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]],
    only: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(metavar="PART [PART ...]", help_behavior_hint=_known_parts)
    ] = None,
    mirror: Annotated[str, tyro.conf.arg(metavar="URL")] = GITHUB,
    dry_run: Flag = False,
    json: Flag = False,
) -> None:
    """Fetch the open data (R2R, REVERIE, graphs, captions) from its public repositories, and verify every file.

    Repositories are read at pinned commits, and every file must have the SHA-256 that ships with this program. Files
    that are there and right are kept: run it again after an interruption, and it goes on. A file of yours in the place
    of one that is needed is named and never overwritten.

    All of the data derives from Matterport3D, whose terms are academic and non-commercial.

    Example: vlnbert data fetch data

    Example: vlnbert data fetch data --only graphs r2r vocabulary

    Example: vlnbert data fetch data --dry-run

    Args:
        folder: The data folder, new or not.
        only: The parts to fetch.
        mirror: An http or https address in place of GitHub's, below which archives are as OWNER/NAME/tar.gz/COMMIT.
        dry_run: Say what would be fetched, from where and how big it is; fetch nothing.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    from vlnbert.api import fetching
    from vlnbert.errors import UsageError

    if only is not None and not only:
        raise UsageError("--only names no part; for example --only graphs r2r vocabulary")
    found = fetching.fetch_data(folder, only or (), mirror=mirror, dry_run=dry_run)
    if json:
        print(dumps(found.to_plain()))
    else:
        show(found.table())
        print(_what_next(found))


def _what_next(report: "FetchReport") -> str:
    folder, size = quote(str(report.folder)), f"{report.missing_bytes / 1e6:,.1f} MB"
    archives = len({part.url for part in report.parts if part.missing_files})
    if report.dry_run and archives:
        return f"{size} would be kept of {archives} archives, which come compressed."
    from vlnbert.learning.presets import presets  # here, since it imports torch

    done = f"Fetched and verified {size}." if archives else "All of it is there, and right."
    train = f"vlnbert train {PRESET} --data {folder} --out runs/{PRESET}"
    trainable = {part.part for part in report.parts} >= set(presets[PRESET].experiment.needs)
    then = train if trainable else f"vlnbert data fetch {folder}    # the other parts"
    return "\n".join([done, "Next:", f"  vlnbert data check {folder}", f"  {then}"])
