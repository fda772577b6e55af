"""The log of a training: what is written is read, also after a kill and a resume."""

from pathlib import Path

from vlnbert.learning.callbacks import JsonLog, read_log

PARTS = {"total": 2.0, "imitation": 1.0}


def test_a_log_is_read_back(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "run" / "log.jsonl", every=2)
    for iteration in range(1, 5):
        log.updated(iteration, 0.1, PARTS)
    log.validated(4, {"val_unseen": {"sr": 0.5}})
    lines = read_log(log.path)
    assert [(line["iteration"], "scores" in line) for line in lines] == [(2, False), (4, False), (4, True)]
    assert lines[0]["total"] == 2.0
    assert lines[2]["scores"] == {"val_unseen": {"sr": 0.5}}


def test_what_a_resumed_run_repeats_holds_once(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl", every=1)
    log.updated(1, 0.1, PARTS)
    log.updated(2, 0.1, PARTS)
    with log.path.open("a") as file:
        file.write('{"iteration": 3, "tot')  # cut by a kill
        file.write("\n")
    log.updated(2, 0.1, {"total": 9.0})
    log.updated(3, 0.1, PARTS)
    assert [(line["iteration"], line["total"]) for line in read_log(log.path)] == [(1, 2.0), (2, 9.0), (3, 2.0)]
