"""Time counts from the start of the process, and memory is what is held at once."""

import subprocess
import sys
import time

import torch

from benchmarks.measuring import peak_memory


def test_start_up_counts_from_the_start_of_the_process() -> None:
    code = "import time; time.sleep(0.2); from benchmarks.measuring import *; print(seconds_since_start())"
    begin = time.perf_counter()
    told = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    waited = time.perf_counter() - begin
    assert 0.2 < told < waited + 0.05, "a clock tick is a hundredth"


def test_the_clock_starts_before_torch_is_imported() -> None:
    code = "import sys, benchmarks.measuring; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_peak_is_what_is_held_at_once() -> None:
    size = 1000 * 4  # bytes

    def run() -> None:
        first = torch.empty(1000)
        second = torch.empty(2000)
        del first, second
        torch.empty(1000)

    assert peak_memory(run) == 3 * size
    assert peak_memory(lambda: None) == 0
