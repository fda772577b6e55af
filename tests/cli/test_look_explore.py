"""`vlnbert explore`: what can go wrong before a page is served, and how it ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

import vlnbert as vln
from vlnbert.api.looking import explore
from vlnbert.explorer import serving
from vlnbert.explorer.guard import is_loopback


def test_a_port_in_use_is_told(run: Callable) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run("explore", "--port", port)
    assert outcome.code == 2
    problem = f"--host 127.0.0.1, --port {port} cannot be served (address already in use)"
    assert outcome.err == f"vlnbert: {problem}; choose another: --port 0 takes any that is free\n"


def test_without_a_server_it_says_what_to_install(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    outcome = run("explore")
    assert outcome.code == 2
    assert outcome.err == "vlnbert: the page needs a server; install it with: pip install 'vlnbert[explore]'\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("nobody-of-that-name",), "nobody-of-that-name"),
        (("random", "stop", "shortest"), "3 agents are too many to watch; name one or two"),
        (("random", "--data", "nowhere"), "nowhere: no such data folder"),
        (("--port", "70000"), "--port 70000 is out of range"),
        (("--host", "no.such.host.invalid"), "--host no.such.host.invalid, --port 0 cannot be served"),
    ],
    ids=["agent", "crowd", "folder", "port", "host"],
)
def test_what_cannot_be_is_one_line(run: Callable, words: tuple[str, ...], line: str) -> None:
    more = () if "--port" in words else ("--port", "0")
    outcome = run("explore", *words, *more)
    assert outcome.code == 2
    assert line in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_run_without_weights(run: Callable, house: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    vln.train("demo", house, folder, iterations=1, validate_every=1, warmup=0, batch=2, bar=False, tensorboard=False)
    for weights in folder.rglob("model.safetensors"):
        weights.unlink()
    outcome = run("explore", folder, "--port", "0")
    assert outcome.code == 2
    assert "holds no model.safetensors" in outcome.err
    assert outcome.err.count("\n") == 1
    for part in ("best", "checkpoints"):
        shutil.rmtree(folder / part)
    outcome = run("explore", folder, "--port", "0")
    assert outcome.code == 2
    lost = "has lost its weights: neither best nor a checkpoint is there; put best back from a copy, or "
    assert outcome.err.startswith(f"vlnbert: {folder}: {lost}")


def test_the_agent_that_ships_needs_a_generated_house(run: Callable, house: Path, tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    for name in ("connectivity", "r2r", "vocab.txt"):
        (folder / name).symlink_to(house / name)
    outcome = run("explore", "--data", folder, "--port", "0")
    assert outcome.code == 2
    assert "the agent that ships sees generated houses only; name another, such as random" in outcome.err
    assert outcome.err.count("\n") == 1


def test_beyond_the_loopback_it_warns(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(serving, "listen", lambda host, port: socket.create_server(("127.0.0.1", 0)))
    monkeypatch.setattr(serving, "serve", lambda app, listening, began: began())
    seen = list[str]()
    explore("random", data=house, host="0.0.0.0", began=seen.append)
    told = capsys.readouterr().err
    assert "warning: everybody who can reach 0.0.0.0 can visit this page" in told
    assert seen == re.findall(r"explore at (\S+)", told)
    explore("random", data=house)
    assert "warning" not in capsys.readouterr().err


def test_which_addresses_stay_here() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.2", "example.org", ""))


def test_it_serves_until_it_is_interrupted(house: Path) -> None:
    words = [sys.executable, "-m", "vlnbert", "explore", "random", "--data", str(house), "--port", "0"]
    root = Path(vln.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r"explore at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)", line)
        assert address, line
        with urlopen(address[1], timeout=30) as answer:
            assert b"vlnbert explorer" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "the explorer has ended\n"
        assert process.wait(20) == 0
