"""Small trainings that may be killed, stopped at a file operation, or raced; and what must be left of them."""

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from tests.learning.samples import CONFIG, SCORED, SHAPE
from tests.processes import PROCESSES
from vlnbert.data.data import Data, open_data
from vlnbert.errors import VlnbertError
from vlnbert.house import generate
from vlnbert.learning.callbacks import JsonLog
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.run_folder import has_checkpoint, is_run, last_checkpoint, locked_run, read_log, read_progress
from vlnbert.learning.run_record import read_record
from vlnbert.learning.runs import begin_run, begun_alone, resume_run
from vlnbert.navigator import Navigator
from vlnbert.ranks import ALONE
from vlnbert.sources import writing

LOG = "log.jsonl"
TRAINING = replace(CONFIG, iterations=2, validate_every=1, max_steps=3, schedule="constant")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OPERATIONS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate")


@dataclass(frozen=True)
class Outcome:
    """What was tried, and what was wrong with what came of it; nothing where all is well."""

    tried: str
    fault: str = ""


def experiment(training: TrainConfig = TRAINING) -> Experiment:
    return Experiment(validate_on=(SCORED,), navigator=SHAPE, training=training)


def go_on(run: Path, data: Data, training: TrainConfig = TRAINING, iterations: int | None = None) -> None:
    """Begin a run, or resume it where it is one, and train to its end; as `vln.train` and `vln.resume` do."""
    if is_run(run):
        with locked_run(run, ALONE):
            _to_the_end(resume_run(run, data, iterations=iterations))
    else:
        with begun_alone(run, ALONE):
            _to_the_end(begin_run("hostile", experiment(training), data, run))


def _to_the_end(trainer: Any) -> None:
    trainer.callbacks = [JsonLog(trainer.run / LOG)]
    trainer.train()


def in_a_process(work: Callable[..., list[Outcome]], folder: Path, *words: object) -> list[Outcome]:
    """What `work(folder, data, *words)` finds, in a process that computes no gradients itself, so that it may fork."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "house").exists():
        generate(folder / "house", scans=3, paths_per_scan=8)
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_work, args=(there, work, folder, words))
    process.start()
    there.close()
    try:
        found: list[Outcome] = here.recv()
    finally:
        process.join()
    return found


def _work(pipe: Connection, work: Callable[..., Any], folder: Path, words: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    data = open_data(folder / "house")
    with torch.no_grad():  # what is read and imported here need not be in each child
        warm = begin_run("hostile", experiment(), data, folder / "warm")
        warm._save()
        warm._validate()
        resume_run(folder / "warm", data)
    shutil.rmtree(folder / "warm")
    pipe.send(work(folder, data, *words))


def watch_operations(run: Path, reached: Callable[[int, str], object]) -> None:
    """From now on this process calls `reached` before each operation that changes something in a run's folder.

    It is told the operation's number and name. Of a file that is written from Rust half is there by then.
    """
    done, inside = [0], str(run)

    def count(name: str) -> None:
        done[0] += 1
        reached(done[0], name)

    def audit(event: str, words: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(words[2], int) and words[2] & WRITES and str(words[0]).startswith(inside):
            count(f"open {Path(words[0]).name}")
        elif event in OPERATIONS:
            path = os.fsdecode(words[0]) if not isinstance(words[0], int) else ""
            if path.startswith(inside) or not path.startswith("/"):  # a tree is removed by names in open folders
                count(f"{event} {Path(path).name}")

    def serialize(tensors: Any, path: Any, metadata: Any = None, **more: Any) -> None:
        Path(path).write_bytes(safetensors.torch.save({"half": torch.zeros(99)})[:-200])
        count(f"half of {Path(path).name}")
        real_serialize(tensors, path, metadata=metadata, **more)

    def sync(descriptor: int) -> None:
        count("fsync")
        real_sync(descriptor)

    def exchange(one: Path, other: Path) -> bool:
        count(f"exchange {other.name}")
        return real_exchange(one, other)

    real_serialize, real_sync, real_exchange = safetensors.torch.serialize_file, os.fsync, writing.exchange
    safetensors.torch.serialize_file = serialize
    os.fsync = sync
    writing.exchange = exchange
    sys.addaudithook(audit)


def noted_operations(folder: Path, data: Data) -> list[str]:
    """The names of all file operations of a training, in their order; its run stays in `whole`."""
    told, noted = folder / "told", folder / "operations"

    def train() -> None:
        names = list[str]()
        watch_operations(folder / "whole", lambda number, name: names.append(name))
        go_on(folder / "whole", data)
        noted.write_text("\n".join(names))

    finish(forked(train, told), told)
    return noted.read_text().splitlines()


def some_of(numbers: list[int], seed: int, count: int | None) -> list[int]:
    """So many of some numbers, as the seed chooses; all of them for None."""
    if count is None:
        return numbers
    return sorted(random.Random(seed).sample(numbers, min(count, len(numbers))))


def forked(work: Callable[[], object], told: Path) -> int:
    """A child that works and ends: 0, 2 for an error of ours, whose text lies in `told`, or 1 for any other."""
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    except VlnbertError as error:
        told.write_text(str(error))
        code = 2
    except BaseException:
        told.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a child ended: its code, or the negative number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def finish(child: int, told: Path) -> None:
    """Wait for a child that must come to its end."""
    assert ended(child) == 0, text_of(told)


def text_of(told: Path) -> str:
    """What a child that failed said."""
    return told.read_text() if told.exists() else "nothing was said"


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def unreadable(run: Path) -> str:
    """What a reader could not open of a run at this moment; nothing if all that is there is whole."""
    try:
        if is_run(run):
            read_record(run)
        if has_checkpoint(run):
            Navigator.from_pretrained(last_checkpoint(run))
        if (run / "best").exists():
            Navigator.from_pretrained(run / "best")
    except VlnbertError as error:
        return str(error)
    return ""


def difference(run: Path, whole: Path) -> str:
    """In what a run at its end differs from one that nothing happened to; nothing if it is the same to the bit."""
    try:
        return _difference(run, whole)
    except VlnbertError as error:
        return str(error)


def _difference(run: Path, whole: Path) -> str:
    if read_record(run) != read_record(whole):
        return "run.json"
    if read_progress(run) != read_progress(whole):
        return "progress"
    listed = [sorted(str(path.relative_to(one)) for path in one.rglob("*")) for one in (run, whole)]
    if listed[0] != listed[1]:
        return f"files: {sorted(set(listed[0]) ^ set(listed[1]))}"
    for path in last_checkpoint(whole).iterdir():
        if path.read_bytes() != (last_checkpoint(run) / path.name).read_bytes():
            return f"the last {path.name}"
    if (whole / "best" / "model.safetensors").read_bytes() != (run / "best" / "model.safetensors").read_bytes():
        return "the best weights"
    logs = [[{**line, "time": 0} for line in read_log(one / LOG)] for one in (run, whole)]
    return "" if logs[0] == logs[1] else LOG
