"""Make the manifest anew from archives: `python -m vlnbert.fetching.make_manifest ARCHIVES`.

ARCHIVES is a folder with the repositories' archives as OWNER/NAME/tar.gz/COMMIT, which is also what `vlnbert data fetch
--mirror` is served from. CONTRIBUTING.md says how to get them.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from vlnbert.errors import DataError, VlnbertError
from vlnbert.fetching.archive import members
from vlnbert.fetching.connection import Broken, SourceError
from vlnbert.fetching.download import CHUNK
from vlnbert.fetching.manifest import SHIPPED, ListedFile, Manifest, Source, write_manifest
from vlnbert.fetching.recipe import REPOSITORIES, Repository
from vlnbert.progress import track
from vlnbert.sources.files import opened


def make_manifest(archives: Path, repositories: Iterable[Repository] = REPOSITORIES) -> Manifest:
    """Size and SHA-256 of each file that the recipe takes."""
    return Manifest(tuple(_source(archives, repository) for repository in track(list(repositories), "archives")))


def _source(archives: Path, repository: Repository) -> Source:
    path = archives / Source(repository.name, repository.commit, ()).url("").lstrip("/")
    with opened(path, "archive") as file:
        try:
            files = sorted(_listed(file, repository), key=lambda one: one.upstream)
        except Broken as error:
            raise DataError(path, str(error), "fetch it again") from None
        except SourceError as error:
            raise DataError(path, error.problem, "fetch it again") from None
    for pick in repository.picks:
        if not any(pick.takes(one.upstream) for one in files):
            raise DataError(path, f"holds nothing for part {pick.part} in {pick.folder}/", "mend the recipe")
    return Source(repository.name, repository.commit, tuple(files))


def _listed(file: IO[bytes], repository: Repository) -> Iterator[ListedFile]:
    for member in members(iter(partial(file.read, CHUNK), b"")):
        for pick in repository.picks:
            if member.regular and pick.takes(member.path):
                digest = hashlib.sha256()
                for piece in member.content:
                    digest.update(piece)
                name = pick.rename or member.path.rpartition("/")[2]
                here = name if pick.to == "." else f"{pick.to}/{name}"
                yield ListedFile(pick.part, member.path, here, member.size, digest.hexdigest())


def main(words: list[str]) -> None:
    """ARCHIVES [OUT]; by default the manifest of this package is replaced."""
    if len(words) not in (1, 2) or words[0].startswith("-"):
        sys.exit("usage: python -m vlnbert.fetching.make_manifest ARCHIVES [OUT]")
    out = Path(words[1]) if len(words) == 2 else SHIPPED
    try:
        manifest = make_manifest(Path(words[0]))
        write_manifest(manifest, out)
    except VlnbertError as error:
        sys.exit(str(error))
    for source in manifest.sources:
        size = sum(file.size for file in source.files)
        print(f"{source.repository}: {len(source.files):,} files, {size:,} bytes")
    print(f"wrote {out}, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
