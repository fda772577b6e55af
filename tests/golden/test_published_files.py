"""The shipped manifest against the open data: the same files, byte for byte."""

import hashlib
import json

from vlnbert.fetching.fetch import missing_files
from vlnbert.fetching.manifest import SHIPPED, read_manifest


def test_the_manifest_lists_the_open_data(open_data):
    manifest = read_manifest(SHIPPED)
    parts = [part for part in manifest.parts if part != "observations"]
    files = [file for source in manifest.only(parts).sources for file in source.files]
    assert len(files) == 10_759
    assert missing_files(open_data.root, files) == []


def test_observations_are_published_with_spaces(open_data):
    """The open data at hand holds the same JSON without them."""
    (source,) = read_manifest(SHIPPED).only(["observations"]).sources
    assert len(source.files) == 90
    for file in source.files:
        content = json.dumps(json.loads((open_data.root / file.path).read_bytes()), indent=2).encode()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
