"""How long this process has been running: what a user waits for before the first result."""

import os
import sys
import time
from pathlib import Path

IMPORTED = time.monotonic()
STARTED = 19  # the place of the start's clock tick in /proc/self/stat, behind the name of the program


def seconds_since_start() -> float:
    """Since the system started the process; where it does not tell, since this module was imported."""
    if sys.platform == "linux":
        told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # a name may hold blanks
        began = int(told[STARTED]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began
    return time.monotonic() - IMPORTED
