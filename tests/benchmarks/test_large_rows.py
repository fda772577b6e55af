"""The large rows at a tiny size: stopped, gone on with, done once, and their scores as docs/measured has them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.large_rows import CHECKOUT, MANIFEST, chosen_jobs, read_jobs, table
from vlnbert.learning.presets import presets

SCRIPT = CHECKOUT / "benchmarks" / "gpu" / "large_rows.py"
JOBS = ("held-out/r2r-open-told-0", "held-out/reverie-open-published-grounding-0")

PATIENCE = 540  # seconds; less than a call that waits for what will never be ready would take


def ran(out: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, SCRIPT, "--out", out, "--scale", "tiny", "--commit", "0123abc", "--only", *JOBS, *words)
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_rows_are_stopped_gone_on_with_and_done_once(tmp_path: Path) -> None:
    stopped = ran(tmp_path, "--seconds", 1)
    assert stopped.returncode == 1, stopped.stderr
    assert f"left: speaker, paths, told, {', '.join(JOBS)}" in stopped.stdout
    whole = ran(tmp_path, "--at-once", 2)
    assert whole.returncode == 0, (whole.stdout, whole.stderr, [path.read_text() for path in tmp_path.rglob("*.out")])
    done = [line["job"] for line in lines(tmp_path / "jobs.jsonl") if line["done"]]
    assert sorted(done) == sorted(["speaker", "paths", "told", *JOBS])
    assert done.index("told") > max(done.index("speaker"), done.index("paths"))
    assert done.index(JOBS[0]) > done.index("told")

    scores = lines(tmp_path / "held-out.jsonl")
    rows = ["r2r-open-told"] * 2 + ["reverie-open-published-grounding"] * 2
    assert [(line["run"], line["seed"], line["commit"], line["iteration"]) for line in scores] == [
        (row, 0, "0123abc", iteration) for row, iteration in zip(rows, (2, 4, 2, 4), strict=True)
    ]
    assert [list(line["scores"]) for line in scores] == [
        [f"{row.split('-')[0]}/{split}" for split in ("dev_unseen", "val_unseen")] for row in rows
    ]
    assert "rgs" not in scores[0]["scores"]["r2r/val_unseen"]
    record = json.loads((tmp_path / JOBS[1] / "run.json").read_text())
    assert len(record["held_out"]) == 6
    assert record["experiment"]["training"]["objective"]["grounding_rows"] == "teacher-forced"

    before = (tmp_path / "jobs.jsonl").read_text()
    again = ran(tmp_path)
    assert again.returncode == 0
    assert "all done" in again.stdout
    assert (tmp_path / "jobs.jsonl").read_text() == before


def test_what_fails_is_left_and_what_needs_it_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir(parents=True)  # an empty data folder
    outcome = ran(tmp_path)
    assert outcome.returncode == 1
    tried = lines(tmp_path / "jobs.jsonl")
    assert {line["job"] for line in tried} == {"speaker", "paths", JOBS[1]}
    assert not any(line["done"] for line in tried)
    assert f"left: speaker, paths, told, {', '.join(JOBS)}" in outcome.stdout


def test_every_row_is_a_preset_at_both_protocols_and_three_seeds() -> None:
    manifest = json.loads(MANIFEST.read_text())
    jobs = read_jobs(manifest, Path("data"), Path("out"), "cuda", "full")
    assert all(row["preset"] in presets for row in manifest["rows"])
    assert len([job for job in jobs if job.row]) == len(manifest["rows"]) * 2 * 3
    held_out = [job for job in jobs if job.protocol == "held-out"]
    assert all(
        "--holdout" in job.words and job.words[job.words.index("--best-on") + 1].endswith("dev_unseen")
        for job in held_out
    )
    assert not any("--best-on" in job.words for job in jobs if job.protocol == "paper")
    needed = chosen_jobs(jobs, ["paper/r2r-open-told-2"])
    assert [job.name for job in needed] == ["views", "speaker", "paths", "told", "paper/r2r-open-told-2"]


def test_val_unseen_is_reported_where_either_split_is_best() -> None:
    def line(iteration: int, dev: float, val: float) -> dict[str, Any]:
        both = {"r2r/dev_unseen": {"sr": dev, "spl": dev}, "r2r/val_unseen": {"sr": val, "spl": val}}
        return {"run": "r2r-open", "seed": 0, "iteration": iteration, "scores": both}

    rows = list(table([line(1, 0.5, 0.1), line(2, 0.4, 0.3), line(3, 0.3, 0.2)]))
    assert rows[2:] == [
        "| r2r-open | r2r/dev_unseen | 10.0 / 10.0 | 10.0 / 10.0 |",
        "| r2r-open | r2r/val_unseen | 30.0 / 30.0 | 30.0 / 30.0 |",
        "| r2r-open | the last update | 20.0 / 20.0 | 20.0 / 20.0 |",
    ]
