"""Each verb from its words to what it prints: good input, bad input, and what is left on disk."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from vlnbert import __version__
from vlnbert.cli.main import VERBS
from vlnbert.data.inventory import NEEDS
from vlnbert.learning.presets import presets

KEYS = ["sr", "osr", "spl", "ndtw", "sdtw", "cls", "rgs", "rgspl", "tl", "ne", "episodes"]


def test_the_menu_lists_every_verb(run: Callable) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    assert all(f"\n  {verb} " in outcome.out for verb in VERBS)
    assert run().code == 2


def test_the_version_is_told(run: Callable) -> None:
    assert run("--version").out.strip() == f"vlnbert {__version__}"


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches(run: Callable, verb: str) -> None:
    outcome = run(*verb.split(), "--help")
    assert outcome.code == 0
    assert re.search("examples: (source <\\()?vlnbert", " ".join(outcome.out.split()))


def test_the_menu_needs_no_torch() -> None:
    code = "import sys, vlnbert.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_python_m_works() -> None:
    outcome = subprocess.run([sys.executable, "-m", "vlnbert", "--version"], capture_output=True, text=True, check=True)
    assert outcome.stdout.startswith("vlnbert ")


def test_house_writes_a_folder_that_is_whole(run: Callable, tmp_path: Path) -> None:
    outcome = run("house", tmp_path / "new", "--seed", "2", "--scans", "3")
    assert outcome.code == 0
    assert "3 houses" in outcome.out
    checked = json.loads(run("data", "check", tmp_path / "new", "--json").out)
    assert all(part["holds"] and not part["faults"] for part in checked["parts"])
    assert checked["presets"]["r2r-open"] == ["landmarks"]  # nobody labels the words of a generated house
    assert checked["presets"]["r2r-open-laptop"] == []


def test_data_check_names_what_is_damaged_and_missing(run: Callable, house: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(house, tmp_path / "broken")
    split = broken / "r2r" / "R2R_train.json"
    split.write_bytes(split.read_bytes()[:1000])
    shutil.rmtree(broken / "captions")
    outcome = run("data", "check", broken)
    assert outcome.code == 2
    assert [line for line in outcome.err.splitlines() if line.startswith(f"vlnbert: {split}: ")]
    faults = json.loads(run("data", "check", broken, "--json").out)["presets"]
    assert list(faults) == list(presets)
    assert faults["demo"] == ["r2r"]
    assert faults["r2r-open"] == ["r2r", "captions", "landmarks"]
    assert faults["r2r-one-stream"] == ["r2r", "augmented"]
    for name in presets:
        assert f" {name} " in outcome.out
    assert NEEDS["augmented"] in outcome.out


def test_candidates_are_printed_one_line_a_viewpoint(run: Callable, house: Path) -> None:
    scan = (house / "connectivity" / "scans.txt").read_text().split()[0]
    lines = [json.loads(line) for line in run("world", "candidates", scan, "--data", house, "--json").out.splitlines()]
    graph = json.loads((house / "connectivity" / f"{scan}_connectivity.json").read_text())
    assert [line["viewpoint"] for line in lines] == [entry["image_id"] for entry in graph if entry["included"]]
    first = lines[0]["candidates"][0]
    assert list(first) == ["viewpoint", "view", "heading", "elevation", "distance", "idx"]
    assert scan in run("world", "candidates", scan, "--data", house).out


def test_world_check_passes_on_a_house(run: Callable, house: Path) -> None:
    assert run("world", "check", "--data", house).code == 0


def test_shortest_is_perfect_in_a_house(run: Callable, house: Path) -> None:
    for task in ("r2r", "reverie"):
        outcome = run("evaluate", "--agent", "shortest", "--task", task, "--data", house, "--json")
        for summary in json.loads(outcome.out).values():
            assert list(summary) == KEYS
            assert summary["sr"] == 1.0
            assert summary["spl"] == pytest.approx(1.0)


def test_what_evaluate_writes_scores_the_same(run: Callable, house: Path, tmp_path: Path) -> None:
    words = ("--agent", "random", "--data", house, "--splits", "val_unseen", "--out", tmp_path, "--json")
    said = json.loads(run("evaluate", *words).out)["r2r/val_unseen"]
    options = ("--task", "r2r", "--split", "val_unseen", "--data", house, "--json")
    scored = json.loads(run("score", tmp_path / "r2r_val_unseen_random.json", *options).out)
    assert scored == pytest.approx(said, nan_ok=False)


def test_test_splits_are_walked_written_and_submitted(run: Callable, house: Path, tmp_path: Path) -> None:
    words = ("--agent", "random", "--data", house, "--splits", "test", "--out", tmp_path, "--json")
    outcome = run("evaluate", *words)
    assert json.loads(outcome.out) == {}
    results = tmp_path / "r2r_test_random.json"
    assert run("submit", results, tmp_path / "up.json", "--task", "r2r", "--data", house).code == 0
    assert json.loads((tmp_path / "up.json").read_text()) == json.loads(results.read_text())


@pytest.fixture
def saved(house: Path, tmp_path: Path) -> Path:
    """A navigator that fits the house, untrained."""
    from vlnbert.navigator import SIZES, Navigator

    pieces = len((house / "vocab.txt").read_text().split("\n")) - 1
    Navigator(replace(SIZES["tiny"]["one-stream"], feature_width=128, vocabulary=pieces)).save_pretrained(
        tmp_path / "nav"
    )
    return tmp_path / "nav"


def test_navigators_are_evaluated(run: Callable, house: Path, saved: Path, tmp_path: Path) -> None:
    words = (saved, "--data", house, "--splits", "val_unseen", "test", "--out", tmp_path, "--json")
    summaries = json.loads(run("evaluate", *words).out)
    assert list(summaries) == ["r2r/val_unseen"]
    assert list(summaries["r2r/val_unseen"]) == KEYS
    options = ("--task", "r2r", "--split", "val_unseen", "--data", house, "--json")
    scored = json.loads(run("score", tmp_path / "r2r_val_unseen_nav.json", *options).out)
    assert scored == pytest.approx(summaries["r2r/val_unseen"])


def test_navigators_that_do_not_fit_are_refused(run: Callable, house: Path, saved: Path, tmp_path: Path) -> None:
    (saved / "digests.json").unlink()
    config = json.loads((saved / "config.json").read_text())
    for change, expected in (({"feature_width": 999}, "is missing"), ({"heads": 0}, "heads is 0")):
        (saved / "config.json").write_text(json.dumps({**config, **change}))
        outcome = run("evaluate", saved, "--data", house)
        assert outcome.code == 2
        assert expected in outcome.err or "has shape" in outcome.err
    empty = shutil.copytree(house, tmp_path / "bare", ignore=shutil.ignore_patterns("*.hdf5"))
    (saved / "config.json").write_text(json.dumps(config))
    outcome = run("evaluate", saved, "--data", empty)
    assert outcome.code == 2
    assert "holds no feature file; name one with --features.views FILE" in outcome.err


def test_an_interrupted_demo_goes_on_to_its_report(run: Callable, tmp_path: Path) -> None:
    words = ["demo", "--out", str(tmp_path / "demo"), "--scans", "3", "--iterations", "30", "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "vlnbert", *words], stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("demo/run*/log.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert f"go on with: the same command (--out {tmp_path / 'demo'})" in process.communicate()[1]
    assert process.returncode == 130
    log = next(tmp_path.glob("demo/run*/log.jsonl"))
    before = json.loads(log.read_text().splitlines()[-1])["iteration"]
    assert before < 30
    outcome = run(*words)
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("random", "shortest", "navigator"))
    iterations = [json.loads(line)["iteration"] for line in log.read_text().splitlines()]
    assert max(iterations) == 30
    assert iterations == sorted(iterations), "it went on, it did not begin anew"
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<article") == 6
    assert page.count("<figure>") >= 8, "two curves, and the floors of each episode"
    assert "<mark" in page
    again = run(*words)  # nothing is trained or made twice
    assert again.out == outcome.out
    assert (tmp_path / "demo" / "report.html").read_text() == page


def test_a_later_split_that_fails_leaves_no_file_of_the_first(run: Callable, house: Path, tmp_path: Path) -> None:
    words = ("--agent", "shortest", "--data", house, "--splits", "val_seen", "test", "--out", tmp_path / "out")
    assert run("evaluate", *words).code == 2
    assert not (tmp_path / "out").exists()


def test_any_seed_walks(run: Callable, house: Path) -> None:
    assert run("evaluate", "--agent", "random", "--data", house, "--seed", str(10**30), "--json").code == 0


def test_names_are_shown_as_they_are(run: Callable, house: Path, tmp_path: Path) -> None:
    """What looks like markup in a name is a name."""
    odd = shutil.copytree(house, tmp_path / "x[red]y[/blue]")
    outcome = run("data", "check", odd)
    assert outcome.code == 0
    assert "[red]y[/blue]" in "".join(outcome.out.split())


def test_a_full_output_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "vlnbert", "--help"]
        outcome = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines() == [
        "vlnbert: the output cannot be written (No space left on device); free some space"
    ]


def test_to_be_terminated_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vlnbert", "house", tmp_path / "new", "--scans", "1000"]  # done after minutes
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not any(tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.001)
    while process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):  # Python loses what is raised in the callback of a weak reference
            process.wait(timeout=20)
    assert process.returncode == 143
    assert process.stderr.read().decode().splitlines()[-1] == "vlnbert: interrupted"
    process.stderr.close()
    assert not any(tmp_path.iterdir())
