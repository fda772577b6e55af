"""Make the manifest from archives: `python tools/make_manifest.py ARCHIVES`.

The recipe below names the files of public repositories that make the open data, at pinned commits. ARCHIVES is a folder
with the repositories' archives as OWNER/NAME/tar.gz/COMMIT, which is also what `vlnbert data fetch --mirror` is served
from. CONTRIBUTING.md says how to get them.
"""

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from vlnbert.errors import DataError, VlnbertError
from vlnbert.fetching.archive import members
from vlnbert.fetching.download import CHUNK, Broken, SourceError
from vlnbert.fetching.manifest import NEWEST, SHIPPED, ListedFile, Manifest, Source
from vlnbert.progress import track
from vlnbert.sources.files import FORMAT, opened
from vlnbert.sources.writing import written_beside


@dataclass(frozen=True)
class Pick:
    """Files of one folder of a repository, and where they go."""

    part: str
    folder: str  # in the repository
    to: str  # in the data folder; "." is the folder itself
    names: str  # a pattern of whole file names
    rename: str = ""  # the name here, where a single file has another there

    def takes(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder == self.folder and re.fullmatch(self.names, name) is not None


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub, OWNER/NAME, at a commit."""

    name: str
    commit: str
    picks: tuple[Pick, ...]


JSON = r"[^/]+\.json"
REPOSITORIES = (
    Repository(
        "peteanderson80/Matterport3DSimulator",
        "589d091b111333f9e9f9d6cfd021b2eb68435925",
        (Pick("graphs", "connectivity", "connectivity", r"\w+_connectivity\.json|scans\.txt"),),
    ),
    Repository(
        "YicongHong/Fine-Grained-R2R",
        "305ed4cd219d79306bc38650899edc14cfdcfb69",
        (Pick("r2r", "source/R2R-original", "r2r", r"R2R_\w+\.json"),),
    ),
    Repository(
        "YicongHong/Recurrent-VLN-BERT",
        "ad147f464ae81ef0a9eeb29dc0a0cbbcddcb1f3e",
        (
            Pick("r2r", "data", "r2r", r"R2R_val_train_seen\.json"),
            Pick("vocabulary", "data", ".", r"vocab\.txt"),
        ),
    ),
    Repository(
        "cwhao98/DDL",
        "f4cdea29ab6afc84e2c1fce4d8ff2306809a5c13",
        (Pick("landmarks", "LAR2R", "r2r", r"lar2r_train\.json", rename="LAR2R_train.json"),),
    ),
    Repository(
        "YuankaiQi/REVERIE",
        "0fe0955705c4c998729c33f59b1a4e965ab86e27",
        (
            Pick("reverie", "tasks/REVERIE/data", "reverie", r"REVERIE_\w+\.json"),
            Pick("reverie", "tasks/REVERIE/data/BBox", "reverie/BBox", JSON),
        ),
    ),
    Repository(
        "pbw-Berwin/LangNav",
        "f2536e620a05cfba33083b16bc6140eed7213731",
        (Pick("captions", "img_features/r2r_blip_DETR_vis2text", "captions", JSON),),
    ),
    Repository(
        "Malak-Mansour/Language_In_Robotic_Navigation",
        "77146170a8f0e55c43abe63f47f66f70eeafe6dc",
        (Pick("observations", "datasets/R2R/observations_list", "observations", JSON),),
    ),
)


def make_manifest(archives: Path, repositories: Iterable[Repository] = REPOSITORIES) -> Manifest:
    """Size and SHA-256 of each file that the recipe takes."""
    return Manifest(tuple(_archive_source(archives, one) for one in track(list(repositories), "archives")))


def _archive_source(archives: Path, repository: Repository) -> Source:
    path = archives / Source(repository.name, repository.commit, ()).url("").lstrip("/")
    with opened(path, "archive") as file:
        try:
            files = sorted(_listed(file, repository), key=lambda one: one.upstream)
        except (Broken, SourceError) as error:
            raise DataError(path, str(error), "fetch it again") from None
    for pick in repository.picks:
        if not any(pick.takes(one.upstream) for one in files):
            raise DataError(path, f"holds nothing for part {pick.part} in {pick.folder}/", "fix the recipe")
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


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest; equal manifests give equal bytes."""
    # Files are listed by the folder that they come from, with their names here only where these differ.
    sources = []
    for source in manifest.sources:
        folders: dict[tuple[str, str, str], dict[str, Any]] = {}
        for file in source.files:
            (there, _, name), (here, _, renamed) = file.upstream.rpartition("/"), file.path.rpartition("/")
            entry = [file.size, file.sha256, *([renamed] if renamed != name else [])]
            folders.setdefault((file.part, there, here), {})[name] = entry
        listed = [{"part": part, "from": there, "to": here, "files": f} for (part, there, here), f in folders.items()]
        sources.append({"repository": source.repository, "commit": source.commit, "folders": listed})
    text = json.dumps({FORMAT: NEWEST, "sources": sources}, separators=(",", ":")).encode()
    with written_beside(path) as temporary:
        temporary.write_bytes(gzip.compress(text, mtime=0))


def main(words: list[str]) -> None:
    """The command line, ARCHIVES [OUT]; by default the manifest of this package is replaced."""
    if len(words) not in (1, 2) or words[0].startswith("-"):
        sys.exit("usage: python tools/make_manifest.py ARCHIVES [OUT]")
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
