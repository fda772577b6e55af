"""Get the open data from its public repositories."""

from collections.abc import Sequence
from pathlib import Path

from vlnbert.api.arguments import checked
from vlnbert.fetching.fetch import FetchReport, fetch
from vlnbert.fetching.manifest import GITHUB, SHIPPED, read_manifest
from vlnbert.progress import quiet


@checked()
def fetch_data(
    folder: str | Path,
    only: str | Sequence[str] = (),
    *,
    mirror: str = GITHUB,
    dry_run: bool = False,
    bar: bool = True,
) -> FetchReport:
    """Fetch the open data (graphs, R2R, REVERIE, captions, ...) from its public repositories, and verify every file.

    Files that are there and right are kept, so that what broke off goes on where it was. A file of another content in
    the place of one that is needed is an error that names it; it is never overwritten.

    Args:
        folder: The data folder, new or not.
        only: The parts to fetch: graphs, vocabulary, r2r, landmarks, reverie, captions, observations; by default all.
        mirror: An http or https address in place of GitHub's, below which archives are as OWNER/NAME/tar.gz/COMMIT.
        dry_run: Look at what is there and tell what would be fetched; fetch nothing.
        bar: Show progress.
    """
    with quiet(not bar):
        parts = [only] if isinstance(only, str) else only
        return fetch(Path(folder), read_manifest(SHIPPED), only=parts, mirror=mirror, dry_run=dry_run)
