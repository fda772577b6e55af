"""The command `vlnbert`: finds the verb, and turns what can go wrong into one line and exit code 2."""

import os
import shutil
import signal
import sys
import textwrap

from vlnbert.api.arguments import as_option
from vlnbert.cli import bench, data, extend, look, start, train  # noqa: F401  # they register their verbs
from vlnbert.cli.interrupted import INTERRUPTED, exit_code, interrupt, speaks, tell_interrupted
from vlnbert.cli.parser import WIDEST, Command, entry
from vlnbert.errors import LONGEST_LINE, PREFIX, UnknownNameError, UsageError, VlnbertError, cut, printable, spelling
from vlnbert.plugins import load_plugin, plugin_failure
from vlnbert.runtime import keep_freed_memory

PLUGIN = "--plugin"
VERBS = Command.every
GROUPS = ("start", "data", "train", "look", "extend", "bench")  # the overview's headings: modules that have verbs


def main() -> None:
    """Run the command line; what a user can mend ends in one line a fault, never in a traceback."""
    keep_freed_memory()
    # SIGTERM is handled like Ctrl-C, so that files are cleaned up.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _interrupt)
    try:
        with spelling(as_option):
            _run(sys.argv[1:])
        sys.stdout.flush()
    except VlnbertError as error:
        for line in str(error).split("\n") if _is_ours_to_tell(error) else ():
            print(f"{PREFIX}{line}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as interrupted:
        if speaks():
            print(INTERRUPTED, file=sys.stderr)
        sys.exit(exit_code(interrupted))
    except BaseException as error:
        # Such as a sys.exit() in a plugin's hook.
        if failed := plugin_failure(error):
            line = failed
        elif _is_out_of_memory(error):
            line = "there is not enough memory for this; choose a smaller batch or navigator"
        elif isinstance(error, OSError):
            # Nothing more can be written; the interpreter's last flush goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # A reader such as `| head` has closed the pipe.
            if isinstance(error, BrokenPipeError):
                sys.exit(0)
            line = f"the output cannot be written ({error.strerror or error}); free some space"
        else:
            raise
        print(f"{PREFIX}{cut(printable(line), LONGEST_LINE)}", file=sys.stderr)
        sys.exit(2)


def _is_ours_to_tell(error: VlnbertError) -> bool:
    """What several processes found wrong, one tells; before they have met, the first on each machine."""
    return speaks() if error.repeated is None else not error.repeated


def _interrupt(number: int = signal.SIGINT, *_: object) -> None:
    """Stop, cleaning up; but torch, while it is imported, would end the process at an exception, and loudly."""
    if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
        tell_interrupted()
        os._exit(exit_code(number))
    interrupt(number)


def _run(words: list[str]) -> None:
    asked, words = _split_plugins(words)
    for plugin in asked:
        load_plugin(plugin)
    if words in ([], ["-h"], ["--help"], ["help"]):
        print(_menu())
        if not words:
            raise SystemExit(2)
    elif words == ["--version"]:
        VERBS["version"].run([])
    elif words[0] == "help":
        _run([*words[1:], "--help"])
    else:
        name = _verb(words)
        rest = words[len(name.split()) :]
        # The next word names a preset, whose settings are options.
        if name == "train":
            train.train(rest)
        else:
            VERBS[name].run(rest)


def _split_plugins(words: list[str]) -> tuple[list[str], list[str]]:
    """The plugins that are asked for by --plugin, wherever that stands, and the other words."""
    plugins, others, left = list[str](), list[str](), iter(words)
    for word in left:
        name, given, value = word.partition("=")
        if name != PLUGIN:
            others.append(word)
            continue
        value = value if given else next(left, "")
        if not value or value.startswith("-"):
            raise UsageError(f"{PLUGIN} names no plugin; give a .py file or a module: {PLUGIN} my.py")
        plugins.append(value)
    return plugins, others


def _verb(words: list[str]) -> str:
    """The verb that words begin with; a mistyped one is answered with the nearest ones."""
    bench.check_place(words)
    if words[0] in VERBS:
        return words[0]
    asked = " ".join(words[:2])
    members = [name.partition(" ")[2] for name in VERBS if name.startswith(f"{words[0]} ")]
    if members and (len(words) == 1 or words[1].startswith("-")):
        if words[1:] in (["-h"], ["--help"]):
            print(_menu(f"{words[0]} "))
            raise SystemExit(0)
        problem = f"vlnbert {words[0]} is followed by {' or '.join(members)}"
        raise UsageError(f"{problem}; vlnbert {words[0]} --help lists what it takes")
    if asked not in VERBS:
        raise UnknownNameError("verb", asked if members else words[0], VERBS)
    return asked


def _is_out_of_memory(error: BaseException) -> bool:
    """torch raises a RuntimeError of its own on a GPU, and a plain one on the CPU."""
    if type(error).__name__ in ("MemoryError", "OutOfMemoryError"):
        return True
    words = ("allocate memory", "not enough memory", "storage size")
    return isinstance(error, RuntimeError) and any(one in str(error) for one in words)


def _menu(prefix: str = "") -> str:
    """Every verb on a line, in groups, as wide as the terminal."""
    width, columns = max(map(len, VERBS)) + 4, min(shutil.get_terminal_size().columns, WIDEST)
    parts = [] if prefix else [textwrap.fill(_ABOUT, columns)]
    for group in GROUPS:
        verbs = [verb for verb in VERBS.values() if verb.group == group and verb.name.startswith(prefix)]
        lines = [f"{group}:", *(entry(verb.name, verb.about, columns, width) for verb in verbs)]
        parts += ["\n".join(lines)] if verbs else []
    return "\n\n".join([*parts, "\n".join(textwrap.fill(one, columns) for one in _MORE)])


_ABOUT = "Agents that follow instructions through real houses: Recurrent VLN-BERT for R2R and REVERIE."
_MORE = (
    "vlnbert VERB --help, or vlnbert help VERB, explains a verb; start with: vlnbert demo",
    "vlnbert --plugin my.py VERB ... loads a plugin first, a .py file or a module: what it registers (rewards, "
    "features and others) can then be named, and vlnbert plugins lists it. It may stand anywhere, and more than once.",
    "A run or a file that names a plugin needs it said so, unless this machine has trained with the same bytes.",
)
