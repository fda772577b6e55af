"""The tiny set, served on this machine, and its manifest."""

from collections.abc import Iterator

import pytest

from tests.fetching.published import Server, serving, tiny_manifest
from vlnbert.fetching import download
from vlnbert.fetching.manifest import Manifest


@pytest.fixture(scope="session")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return tiny_manifest(tmp_path_factory.mktemp("archives"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With little patience, so that tests need none; and past any proxy."""
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setattr(download, "PATIENCE", 0.3)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as told:
        yield told
