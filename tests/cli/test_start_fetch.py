"""`vlnbert data fetch`, from its words to what it prints, against a server on this machine."""

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.fetching import published
from tests.fetching.published import CONTENT, GRAPHS, LARGE, TASKS, Server, serving, tiny_manifest
from tools.make_manifest import write_manifest
from vlnbert.api import data
from vlnbert.learning.experiment import Experiment

# The same command with the tiny manifest; and with files that may not grow: to the program, a disk that is full.
COMMAND = """
import resource, sys
from pathlib import Path
from vlnbert.api import data
from vlnbert.cli.main import main
data.SHIPPED = Path(sys.argv.pop(1))
room = int(sys.argv.pop(1))
if room:
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
main()
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manifest")
    write_manifest(tiny_manifest(folder / "archives"), folder / "manifest.json.gz")
    return folder / "manifest.json.gz"


@pytest.fixture
def server(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(data, "SHIPPED", shipped)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as told:
        yield told


def whole(folder: Path) -> bool:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return found == CONTENT


def test_it_says_what_is_there_and_what_comes_next(run: Run, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    dry = run("data", "fetch", folder, "--mirror", server.url, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "0.3 MB would be kept of 2 archives" in dry.out
    assert not folder.exists()
    first = run("data", "fetch", folder, "--mirror", server.url, "--only", "graphs", "r2r")
    assert first.code == 0
    assert "Fetched and verified 0.3 MB." in first.out
    assert f"  vlnbert data fetch {folder}    # the other parts" in first.out
    second = run("data", "fetch", folder, "--mirror", server.url)
    assert f"  vlnbert data check {folder}" in second.out
    assert "derives from Matterport3D, whose terms are academic and non-commercial" in " ".join(second.out.split())
    assert whole(folder)
    for words in (("--mirror", server.url), ("--dry-run",)):
        assert "All of it is there, and right." in run("data", "fetch", folder, *words).out
    assert server.paths == [GRAPHS, TASKS, TASKS]


def test_what_comes_next_is_what_the_preset_needs(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("data", "fetch", tmp_path / "data", "--mirror", server.url, "--only", "graphs", "r2r")
    train = f"vlnbert train r2r-open --data {tmp_path / 'data'} --out runs/r2r-open"
    assert train not in run(*words).out
    monkeypatch.setattr(Experiment, "needs", property(lambda _: ("graphs", "r2r")))
    assert train in run(*words).out


def test_programs_get_one_object(run: Run, server: Server, tmp_path: Path) -> None:
    told = json.loads(run("data", "fetch", tmp_path, "--mirror", server.url, "--json", "--only", "vocabulary").out)
    size = len(CONTENT["vocab.txt"])
    part = {"part": "vocabulary", "repository": "two/tasks", "commit": "b" * 40, "url": server.url + TASKS}
    counts = {"files": 1, "bytes": size, "missing_files": 1, "missing_bytes": size}
    assert told == {"folder": str(tmp_path), "dry_run": False, "missing_bytes": size, "parts": [{**part, **counts}]}


def test_mistakes_end_in_one_line(run: Run, server: Server, tmp_path: Path) -> None:
    mistakes = {
        ("--only",): "--only names no part; for example --only graphs r2r vocabulary",
        ("--only", "graph"): "no part 'graph'; did you mean graphs?",
        ("--mirror", "data"): "the mirror 'data' is no http or https address; give one such as http://localhost:8000",
        (
            "--mirror",
            "http://127.0.0.1:1",
        ): "http://127.0.0.1:1: cannot be reached (Connection refused); check the network",
    }
    for words, said in mistakes.items():
        outcome = run("data", "fetch", tmp_path / "data", *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.splitlines()[-1].startswith(f"vlnbert: {said}")
        assert outcome.err.count("vlnbert: ") == 1
    assert not (tmp_path / "data").exists()


def test_a_manifest_of_another_version(
    run: Run, server: Server, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = tmp_path / "manifest.json.gz"
    newer.write_bytes(gzip.compress(gzip.decompress(shipped.read_bytes()).replace(b'"format":1', b'"format":2')))
    monkeypatch.setattr(data, "SHIPPED", newer)
    outcome = run("data", "fetch", tmp_path / "data", "--mirror", server.url)
    assert outcome.code == 2
    assert outcome.err.startswith(
        f"vlnbert: {newer}: is of format 2, made by a newer vlnbert; this one reads up to 1; "
    )
    assert outcome.err.count("\n") == 1
    assert server.asked == []


def test_a_house_of_ones_own_is_not_touched(run: Run, server: Server, house: Path) -> None:
    before = {path: path.read_bytes() for path in house.rglob("*") if path.is_file()}
    outcome = run("data", "fetch", house, "--mirror", server.url)
    lines = outcome.err.splitlines()
    assert outcome.code == 2
    assert all("is not the published file" in line and "never overwritten" in line for line in lines)
    assert {path: path.read_bytes() for path in house.rglob("*") if path.is_file()} == before
    assert server.asked == []


def begun(server: Server, shipped: Path, folder: Path, room: int = 0) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", COMMAND, shipped, room, "data", "fetch", folder, "--mirror", server.url]
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interruption_leaves_nothing_half_written(
    run: Run, server: Server, shipped: Path, tmp_path: Path, name: str
) -> None:
    server.answers = {GRAPHS: [lambda handler: slowly(handler, 200_000)]}
    process = begun(server, shipped, tmp_path / "data")
    try:
        while not list(tmp_path.glob("data/connectivity/.*")):  # half of a file is written beside its place
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == ({"SIGINT": 130, "SIGTERM": 143}[name], "")
    assert err.splitlines()[-2:] == [
        f"{tmp_path / 'data'}: not all of it is there; run the same command again: what is there is kept",
        "vlnbert: interrupted",
    ]
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []
    assert run("data", "fetch", tmp_path / "data", "--mirror", server.url).code == 0
    assert whole(tmp_path / "data")


def slowly(handler: published.Handler, size: int) -> None:
    handler.begin(200, Content_Length=len(handler.body))
    handler.wfile.write(handler.body[:size])
    handler.wfile.flush()
    handler.told.ended.wait(60)


def test_a_full_disk_is_one_line_and_resumable(run: Run, server: Server, shipped: Path, tmp_path: Path) -> None:
    process = begun(server, shipped, tmp_path / "data", room=100_000)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    told = [line for line in err.splitlines() if line.startswith("vlnbert: ")]
    assert len(told) == 1
    assert told[0].startswith(
        f"vlnbert: {tmp_path / 'data' / LARGE}: cannot be written (File too large); free some space"
    )
    assert not list((tmp_path / "data").rglob(".*"))
    assert run("data", "fetch", tmp_path / "data", "--mirror", server.url).code == 0
    assert whole(tmp_path / "data")
