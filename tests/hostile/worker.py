"""A process that damages files and reads them: one case after the other, bounded in memory, watched from outside."""

import os
import resource
import shutil
import time
import warnings
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from traceback import extract_tb

from tests.hostile.damaged_tensors import MARK
from tests.hostile.formats import BY_NAME, Format
from tests.hostile.meaning import meaning
from tests.hostile.mutations import mutate, remove
from tests.hostile.readers import TOLD, tidy
from vlnbert.errors import SHOWN_FAULTS, VlnbertError, printable
from vlnbert.progress import quiet

MOST_MEMORY = 1 << 30  # bytes beyond what the honest twin takes
ROOM = 3 << 30  # bytes of addresses beyond those of an idle worker, so that a blow-up ends before the machine does
LONGEST_LINE = 500
REFUSED, SAME, OTHER = "refused", "same", "other value"
FAULTS = ("traceback", "hang", "memory", "crash", "silently other", "long message", "left behind", "code ran")


@dataclass(frozen=True)
class Case:
    """One mutation: it is the same whenever and wherever it is made."""

    format: str
    seed: int
    number: int


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    format: str
    seed: int
    number: int
    how: str  # the damage, in a word or two
    verdict: str
    detail: str = ""
    seconds: float = 0.0
    peak: int = 0  # bytes beyond those before

    @property
    def faulty(self) -> bool:
        return self.verdict in FAULTS


@dataclass(frozen=True)
class Honest:
    """What reading the honest file gives, and takes."""

    meaning: str
    seconds: float
    peak: int


def work(honest: Path, root: Path, pipe: Connection) -> None:
    """Serve cases from a pipe, in a copy of the honest folder; each is announced before anything is read."""
    os.environ["VLNBERT_STATE"] = str(root / "state")
    os.environ["VLNBERT_CACHE"], os.environ[MARK] = str(root / "cache"), str(root / "mark")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries print what they think of damaged files
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    shutil.copytree(honest, root, symlinks=True, dirs_exist_ok=True)
    bench = Bench(honest, root)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + ROOM, resource.RLIM_INFINITY))
    while (case := pipe.recv()) is not None:
        seconds, how = bench.expected(case).seconds, bench.damage(case)
        pipe.send(("reading", (seconds, how)))
        pipe.send(("read", bench.outcome(case, how)))


class Bench:
    """A folder of honest files of which one at a time is damaged, read and put back."""

    def __init__(self, honest: Path, root: Path) -> None:
        self.honest, self.root, self.known = honest, root, dict[tuple[str, Path], Honest]()

    def expected(self, case: Case) -> Honest:
        """What the honest file means to this format's reader; it is read twice, since the first time imports things."""
        format, path = BY_NAME[case.format], self._file(case)
        known = format.name, path  # a file may be of two formats, such as weights to import and to inspect
        if known not in self.known:
            for _ in range(2):
                tidy(self.root)
                begin, before = time.process_time(), _reset_peak()
                found = meaning(_quietly(format, self.root, path))
            self.known[known] = Honest(found, time.process_time() - begin, _status("VmHWM") - before)
            self._put_back(path)
        return self.known[known]

    def damage(self, case: Case) -> str:
        return mutate(self._file(case), BY_NAME[case.format].kind, _random(case))

    def outcome(self, case: Case, how: str) -> Outcome:
        """Read what was damaged, judge what comes of it, and put the honest file back."""
        format, path, honest = BY_NAME[case.format], self._file(case), self.expected(case)
        begin, before = time.monotonic(), _reset_peak()
        verdict, detail = _verdict(format, self.root, path, honest, how)
        seconds, peak = time.monotonic() - begin, _status("VmHWM") - before
        if peak > honest.peak + MOST_MEMORY and verdict not in FAULTS:
            verdict, detail = "memory", f"{peak >> 20} MB, the honest file {honest.peak >> 20}; {verdict} {detail}"
        if Path(os.environ[MARK]).exists():
            Path(os.environ[MARK]).unlink()
            verdict = "code ran"
        if verdict == REFUSED and (left := _left_behind(self.root / "out")):
            verdict, detail = "left behind", f"{left} after: {detail}"
        self._put_back(path)
        return Outcome(**asdict(case), how=how, verdict=verdict, detail=detail[:1000], seconds=seconds, peak=peak)

    def _file(self, case: Case) -> Path:
        """Among the honest ones: what a reader wrote meanwhile does not count."""
        names = sorted(path.relative_to(self.honest) for path in self.honest.glob(BY_NAME[case.format].files))
        return self.root / _random(case).choice(names)

    def _put_back(self, path: Path) -> None:
        remove(path)
        shutil.copyfile(self.honest / path.relative_to(self.root), path)
        kept = {one.name for one in (self.honest / "cache").iterdir()}
        for one in (self.root / "cache").iterdir():
            if one.name not in kept:
                remove(one)
        tidy(self.root)


def _random(case: Case) -> Random:
    return Random(f"{case.seed} {case.format} {case.number}")


def _verdict(format: Format, root: Path, path: Path, honest: Honest, how: str) -> tuple[str, str]:
    """Everything that a reader raises is judged, even what is no ordinary exception, such as a panic of Rust."""
    try:
        found = meaning(_quietly(format, root, path))
    except VlnbertError as error:
        return _refusal(error)
    except MemoryError:
        return "memory", "no memory was left"
    except BaseException as error:
        where = extract_tb(error.__traceback__)[-1]
        ours = [frame for frame in extract_tb(error.__traceback__) if "vlnbert" in frame.filename][-1:]
        places = " in ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (where, *ours))
        return "traceback", f"{type(error).__name__}: {str(error)[:200]!r} at {places}"
    if found == honest.meaning:
        return SAME, ""
    damaged = how.startswith(("bytes", "no file"))
    noticed = format.tells == "any change" or (format.tells == "damaged bytes" and damaged)
    return ("silently other", "the values are others") if noticed and not TOLD else (OTHER, "; ".join(TOLD))


def _quietly(format: Format, root: Path, path: Path) -> object:
    TOLD.clear()
    with quiet(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return format.read(root, path)


def _refusal(error: VlnbertError) -> tuple[str, str]:
    """One line a fault, a line of a length that people read, nothing that a terminal would obey."""
    lines = str(error).split("\n")
    long = len(lines) > SHOWN_FAULTS + 1 or max(map(len, lines)) > LONGEST_LINE or not lines[0]
    obeyed = [one for one in lines if printable(one) != one]
    if long or obeyed:
        return (
            "long message",
            f"{len(lines)} lines of up to {max(map(len, lines))}, {len(obeyed)} with controls: {lines[0][:200]!r}",
        )
    return REFUSED, lines[0][:200]


def _left_behind(out: Path) -> str:
    """Half a folder or a temporary file; what was fetched and verified may stay."""
    hidden = list(out.rglob(".*"))
    return ", ".join(path.name for path in (*hidden, *out.glob("imported"), *out.glob("submission.json")))


def _reset_peak() -> int:
    """Forget the most memory so far; the memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    """A line of this process's status, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0]) << 10
