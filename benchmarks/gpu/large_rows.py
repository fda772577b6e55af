"""The rows of docs/results.md that need a GPU, their checkpoints chosen on houses kept out and by the paper's protocol.

    python benchmarks/gpu/large_rows.py --data data --out runs/large --device cuda --mps

runs as many trainings side by side as `--at-once` says and stops them after `--seconds`; the same line goes on with
them, until it says that all are done: two or three times ten minutes of one H200. rows.json says what is trained.
`OUT/held-out.jsonl` and `OUT/paper.jsonl` have a line for each validation, as docs/measured has them, and
`OUT/<protocol>/<row>-<seed>` are the runs with their logs.

A held-out run learns in all train houses but six, and dev_unseen, which is those six, chooses its checkpoint.
val_unseen is walked at each validation too and chooses nothing, so that one log tells what either choice gives. The
runs of the paper's protocol (`--only 'paper/*'`, as long again) learn in all train houses, and val_unseen chooses.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
MANIFEST = Path(__file__).with_name("rows.json")
PATIENCE = 8  # seconds between one request to stop and the next, which is more urgent
SHOWN = ("sr", "spl", "rgs", "rgspl")


@dataclass(frozen=True)
class Job:
    """A command, and the names of those that must have been done before it."""

    name: str
    words: tuple[str, ...]
    after: tuple[str, ...] = ()
    writes: str = ""  # a file of ours that an interruption may leave, which the command would not write over
    row: str = ""  # of a training that makes a row: its name there, protocol and seed
    protocol: str = ""
    seed: int = 0


def read_jobs(manifest: dict[str, Any], data: Path, out: Path, device: str, scale: str) -> list[Job]:
    """All jobs of the manifest, preparations first, with every option that they are run with."""
    tiny = manifest["tiny"] if scale == "tiny" else {"skips": []}

    def command(text: str) -> tuple[str, ...]:
        places = {"data": data, "out": out, "device": device}
        return tuple(word.format(**places) for word in shlex.split(text))

    def training(name: str, preset: str, options: str, **more: Any) -> Job:
        sizes = f"{tiny.get('train', '')} {tiny.get(preset.split('-')[0], '')}"
        return Job(
            name,
            command(f"train {preset} --data {{data}} --out {{out}}/{name} --device {{device}} {options} {sizes}"),
            **more,
        )

    jobs = []
    for one in manifest["preparations"]:
        after = tuple(one.get("after", ()))
        if "train" in one:
            jobs.append(training(one["name"], one["train"], "", after=after))
        else:
            words = command(f"{one['run']} {tiny.get(one['name'], '')}")
            jobs.append(Job(one["name"], words, after, writes=" ".join(command(one.get("writes", "")))))
    for protocol, choice in manifest["protocols"].items():
        for row in manifest["rows"]:
            options = f"{choice.format(task=row['preset'].split('-')[0])} {row['options']}"
            for seed in manifest["seeds"]:
                about = {"row": row["name"], "protocol": protocol, "seed": seed, "after": tuple(row["after"])}
                seeded = f"{options} --training.seed {seed}"
                jobs.append(training(f"{protocol}/{row['name']}-{seed}", row["preset"], seeded, **about))
    left = [job for job in jobs if job.name not in tiny["skips"]]
    known = {job.name for job in left}
    return [replace(job, after=tuple(name for name in job.after if name in known)) for job in left]


def chosen_jobs(jobs: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """The jobs that a pattern names, and what they need."""
    for pattern in patterns:
        if not any(fnmatchcase(job.name, pattern) for job in jobs):
            sys.exit(f"--only {pattern}: no job has such a name; --list shows them")
    wanted = {job.name for job in jobs if any(fnmatchcase(job.name, pattern) for pattern in patterns)}
    for job in reversed(jobs):
        wanted.update(job.after if job.name in wanted else ())
    return [job for job in jobs if job.name in wanted]


@dataclass(frozen=True)
class Ledger:
    """OUT/jobs.jsonl: a line for each time that a job ran."""

    path: Path
    commit: str  # of the code that runs now

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.is_file() else []

    def write(self, **line: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({**line, "commit": self.commit}) + "\n")

    @property
    def done(self) -> set[str]:
        return {line["job"] for line in self.read() if line["done"]}

    def commits(self, job: str) -> str:
        """The commit that a job ran on; several, joined, where the code has changed since it was stopped."""
        commits = dict.fromkeys(line["commit"] for line in self.read() if line["job"] == job)
        return "+".join(commits) or self.commit


@dataclass(frozen=True)
class Machine:
    """Where jobs run: their environment and how many threads each may have."""

    out: Path
    threads: int

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        """Begin a job, or go on with a training that was stopped; what it prints is added to OUT/<name>.out."""
        words, run = list(job.words), self.out / job.name
        if words[0] == "train":
            if (run / "run.json").is_file():
                words = ["train", "--resume", str(run), *words[2:4], *words[6:8]]
            words += ["--threads", str(self.threads)]
        if job.writes:
            Path(job.writes).unlink(missing_ok=True)
        run.parent.mkdir(parents=True, exist_ok=True)
        source = os.pathsep.join(filter(None, (str(CHECKOUT / "src"), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": str(self.threads)}
        with run.with_name(f"{run.name}.out").open("ab") as printed:
            return subprocess.Popen(
                (sys.executable, "-m", "vlnbert", *words), stdout=printed, stderr=subprocess.STDOUT, env=environment
            )


def run_jobs(jobs: Sequence[Job], machine: Machine, ledger: Ledger, at_once: int, deadline: float) -> None:
    """Run jobs in their order, each when what it needs is done, until all are done or the time is up."""
    running: dict[Job, tuple[subprocess.Popen[bytes], float]] = {}
    done, failed = ledger.done, set[str]()
    waiting = [job for job in jobs if job.name not in done]
    try:
        while (waiting or running) and time.monotonic() < deadline:
            ready = [job for job in waiting if set(job.after) <= done]
            for job in ready[: at_once - len(running)]:
                waiting.remove(job)
                running[job] = machine.start(job), time.monotonic()
            for job, (process, began) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[job]
                (failed if process.returncode else done).add(job.name)
                _note(ledger, job, process, began, done=not process.returncode)
            failed |= {job.name for job in waiting if failed & set(job.after)}
            waiting = [job for job in waiting if job.name not in failed]
            time.sleep(0.2)
    finally:
        _stop(running, ledger)


def _stop(running: dict[Job, tuple[subprocess.Popen[bytes], float]], ledger: Ledger) -> None:
    """Ask all that still run to save and stop, then more urgently, and end what does not."""
    for end in ("terminate", "terminate", "kill"):
        for process, _ in running.values():
            if process.poll() is None:
                getattr(process, end)()
        until = time.monotonic() + PATIENCE
        while any(process.poll() is None for process, _ in running.values()) and time.monotonic() < until:
            time.sleep(0.1)
    for job, (process, began) in running.items():
        process.wait()
        _note(ledger, job, process, began, done=False)  # it may have ended by itself; the next call finds that out


def _note(ledger: Ledger, job: Job, process: subprocess.Popen[bytes], began: float, *, done: bool) -> None:
    seconds = round(time.monotonic() - began, 1)
    ledger.write(job=job.name, seconds=seconds, code=process.returncode, done=done)
    state = "done" if done else f"left with {process.returncode}"
    print(f"{job.name}: {state} after {seconds:.0f} s", flush=True)


def validations(out: Path, jobs: Sequence[Job], ledger: Ledger) -> list[dict[str, Any]]:
    """A line for each validation of the jobs that make rows, as docs/measured has them."""
    lines = []
    for job in jobs:
        log = out / job.name / "log.jsonl"
        if not job.row or not log.is_file():
            continue
        # A run that was killed validates again what came after its last checkpoint: the later line counts.
        made = {
            line["iteration"]: line["scores"]
            for line in map(json.loads, log.read_text().splitlines())
            if "scores" in line
        }
        commit = ledger.commits(job.name)
        for iteration, scores in sorted(made.items()):
            rounded = {split: _rounded(one) for split, one in scores.items()}
            about = {"run": job.row, "seed": job.seed, "commit": commit, "iteration": iteration}
            lines.append({**about, "scores": rounded})
    return lines


def _rounded(scores: dict[str, Any]) -> dict[str, Any]:
    return {key: round(score, 5) for key, score in scores.items() if score is not None}


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Rows of Markdown: what val_unseen has at the checkpoint of either choice and at the last update."""
    names = list(dict.fromkeys(line["run"] for line in lines))
    seeds = sorted({line["seed"] for line in lines})
    yield "| val_unseen | chosen | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |"
    yield "| --- " * (len(seeds) + 3) + "|"
    for name in names:
        task = name.split("-")[0]
        for choice in (f"{task}/dev_unseen", f"{task}/val_unseen", "the last update"):
            found = {}
            for seed in seeds:
                run = [line for line in lines if (line["run"], line["seed"]) == (name, seed)]
                scored = [line for line in run if choice in line["scores"]] if "/" in choice else run[-1:]
                if scored:
                    best = max(scored, key=lambda line: line["scores"][choice]["spl"]) if "/" in choice else scored[0]
                    found[seed] = best["scores"][f"{task}/val_unseen"]
            if found:
                cells = [_cell([found[seed]]) if seed in found else "" for seed in seeds]
                yield f"| {name} | {choice} | " + " | ".join((*cells, _cell(list(found.values())))) + " |"


def _cell(scores: Sequence[dict[str, float]]) -> str:
    return " / ".join(f"{100 * mean(one[key] for one in scores):.1f}" for key in SHOWN if key in scores[0])


@contextmanager
def shared_gpu(wanted: bool, folder: Path) -> Iterator[None]:
    """CUDA's MPS within the block, so that kernels of several processes run at the same time."""
    if not wanted:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
    try:
        yield
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit -t 5\n", check=False)


def make_house(folder: Path) -> Path:
    """A generated house whose instructions have word labels: its words shared out evenly over each path."""
    if not folder.is_dir():
        sys.path.insert(0, str(CHECKOUT / "src"))
        from vlnbert.house import generate

        generate(folder, scans=12, paths_per_scan=6)
        labels: dict[str, dict[str, dict[str, dict[str, list[int]]]]] = {}
        for item in json.loads((folder / "r2r" / "R2R_train.json").read_text()):
            path = labels[str(item["path_id"])] = {viewpoint: {} for viewpoint in item["path"]}
            for number, text in enumerate(item["instructions"]):
                words, hops = len(re.findall(r"\w+|[^\w\s]", text)), len(path)
                for hop, viewpoint in enumerate(path):
                    due = list(range(words * hop // hops, words * (hop + 1) // hops))
                    path[viewpoint][str(number)] = {"action": due[:2], "landmark": due[2:]}
        (folder / "r2r" / "LAR2R_train.json").write_text(json.dumps(labels))
    return folder


def this_commit() -> str:
    found = subprocess.run(["git", "-C", CHECKOUT, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or sys.exit("this is no checkout of git; say which commit it is: --commit")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the real data folder; data/r2r/told_aug.json is written there")
    parser.add_argument("--out", type=Path, required=True, help="where the runs and their scores go")
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument("--scale", choices=("full", "tiny"), default="full", help="tiny: a generated house, in seconds")
    parser.add_argument(
        "--only",
        nargs="+",
        default=("held-out/*",),
        metavar="NAME",
        help="jobs by name or pattern, and what they need (default: held-out/*)",
    )
    parser.add_argument(
        "--list", action="store_true", help="say what each job runs and whether it is done, and run nothing"
    )
    parser.add_argument("--at-once", type=int, default=9, help="jobs side by side (default: 9)")
    parser.add_argument(
        "--seconds", type=float, default=560, help="then what still runs is saved and stopped (default: 560)"
    )
    parser.add_argument("--mps", action="store_true", help="share the GPU by CUDA's MPS")
    parser.add_argument("--commit", help="of this code, where git does not tell")
    return parser.parse_args()


def main() -> int:
    asked, began = arguments(), time.monotonic()
    out = asked.out.resolve()
    if asked.scale == "full" and asked.data is None:
        sys.exit("--data DIR: name the folder of real data, or try it out with --scale tiny")
    commit = asked.commit or this_commit()
    data = asked.data.resolve() if asked.data else out / "house"
    manifest = json.loads(MANIFEST.read_text())
    every = read_jobs(manifest, data, out, asked.device, asked.scale)
    jobs = chosen_jobs(every, asked.only)
    ledger = Ledger(out / "jobs.jsonl", commit)
    if asked.list:
        for job in jobs:
            print(f"{'done' if job.name in ledger.done else '    '} {job.name}: vlnbert {shlex.join(job.words)}")
        return 0
    out.mkdir(parents=True, exist_ok=True)
    if asked.data is None:
        make_house(data)
    machine = Machine(out, max(1, len(os.sched_getaffinity(0)) // asked.at_once))
    with shared_gpu(asked.mps, out / "mps"):
        run_jobs(jobs, machine, ledger, asked.at_once, began + asked.seconds)
    for protocol in manifest["protocols"]:
        lines = validations(out, [job for job in every if job.protocol == protocol], ledger)
        if lines:
            (out / f"{protocol}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            print(f"\n{protocol}: {out / f'{protocol}.jsonl'}\n")
            print("\n".join(table(lines)))
    left = [job.name for job in jobs if job.name not in ledger.done]
    print(f"\nleft: {', '.join(left)}; the same line goes on" if left else "\nall done")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
