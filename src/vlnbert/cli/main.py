"""The command `vlnbert`: finds the verb, and turns what can go wrong into one line and exit code 2."""

import os
import signal
import sys
from collections.abc import Callable

from tyro.extras import SubcommandApp

from vlnbert import __version__
from vlnbert.cli.augment import augment_paths, augment_speak, augment_sub_instructions
from vlnbert.cli.bench import bench_evaluate, bench_train, check_place
from vlnbert.cli.compare import compare
from vlnbert.cli.data import check_data, holdout_houses, make_r4r, presets
from vlnbert.cli.demo import demo, house
from vlnbert.cli.evaluate import evaluate
from vlnbert.cli.explore import explore
from vlnbert.cli.features import caption_features, object_features, view_features
from vlnbert.cli.fetch import fetch_data
from vlnbert.cli.interrupted import INTERRUPTED, exit_code, interrupt, speaks, tell_interrupted
from vlnbert.cli.parsing import as_option, parsed, postponed
from vlnbert.cli.plugins import plugins
from vlnbert.cli.report import curves, report
from vlnbert.cli.score import score, submit
from vlnbert.cli.show import show
from vlnbert.cli.speak import speak
from vlnbert.cli.train import train
from vlnbert.cli.weights import export_weights, import_weights, inspect_weights
from vlnbert.cli.world import candidates, check_world
from vlnbert.errors import LONGEST_LINE, PREFIX, UnknownNameError, UsageError, VlnbertError, cut, printable, spelling
from vlnbert.plugins import load_plugin, plugin_failure
from vlnbert.runtime import keep_freed_memory

PLUGIN = "--plugin"
VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "train": train,
    "house": house,
    "data fetch": fetch_data,
    "data check": check_data,
    "data r4r": make_r4r,
    "data holdout": holdout_houses,
    "world candidates": candidates,
    "world check": check_world,
    "features views": view_features,
    "features captions": caption_features,
    "features objects": object_features,
    "augment paths": augment_paths,
    "augment speak": augment_speak,
    "augment sub-instructions": augment_sub_instructions,
    "presets": presets,
    "plugins": plugins,
    "curves": curves,
    "report": report,
    "explore": explore,
    "show": show,
    "compare": compare,
    "evaluate": evaluate,
    "score": score,
    "submit": submit,
    "speak": speak,
    "weights import": import_weights,
    "weights inspect": inspect_weights,
    "weights export": export_weights,
    "bench train": bench_train,
    "bench evaluate": bench_evaluate,
}


def main() -> None:
    """Run the command line; what a user can mend ends in one line a fault, never in a traceback."""
    keep_freed_memory()
    for name in (signal.SIGINT, signal.SIGTERM):  # to be terminated is to be interrupted: clean up
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
        if failed := plugin_failure(error):  # such as a sys.exit() in a hook of somebody's module
            line = failed
        elif _is_out_of_memory(error):
            line = "there is not enough memory for this; choose a smaller batch or navigator"
        elif isinstance(error, OSError):
            _give_up_output()
            if isinstance(error, BrokenPipeError):  # `| head` has seen enough
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
    if words in ([], ["-h"], ["--help"]):
        print(_menu())
        if not words:
            raise SystemExit(2)
    elif words == ["--version"]:
        print(f"vlnbert {__version__}")
    else:
        _check_verb(words)
        if words[0] == "train":  # its next word chooses among presets, each with settings of its own
            train(words[1:])
        else:
            app = _app({name: verb for name, verb in VERBS.items() if verb is not train})
            verb = words[:2] if " ".join(words[:2]) in VERBS else words[:1]
            rest = words[len(verb) :]
            parsed(lambda rest: app.cli(prog="vlnbert", args=[*verb, *rest]), " ".join(["vlnbert", *verb]), rest)()


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


def _check_verb(words: list[str]) -> None:
    """A mistyped verb is answered with the nearest ones; a bench of the checkout, with where it is."""
    check_place(words)
    groups = {name.split()[0] for name in VERBS}
    if words[0] not in groups:
        raise UnknownNameError("verb", words[0], VERBS)
    if words[0] not in VERBS and len(words) > 1 and not words[1].startswith("-"):
        spoken = " ".join(words[:2])
        if spoken not in VERBS:
            raise UnknownNameError("verb", spoken, VERBS)


def _is_out_of_memory(error: BaseException) -> bool:
    """torch raises a RuntimeError of its own on a GPU, and a plain one on the CPU."""
    if type(error).__name__ in ("MemoryError", "OutOfMemoryError"):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("allocate memory", "not enough memory", "storage size")
    )


def _give_up_output() -> None:
    """Nothing more can be written; let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _menu() -> str:
    """Every verb on a line; tyro's own overview would print all their explanations in full."""
    width = max(map(len, VERBS))
    lines = [f"  vlnbert {name:<{width}}  {(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()]
    about = "Agents that follow instructions through real houses: Recurrent VLN-BERT for R2R and REVERIE."
    return "\n".join([about, "", *lines, "", _MORE])


def _app(verbs: dict[str, Callable[..., None]]) -> SubcommandApp:
    """Verbs of two words become groups."""
    app, groups = SubcommandApp(), dict[str, SubcommandApp]()
    for name, verb in verbs.items():
        group, _, rest = name.partition(" ")
        if not rest:
            app.command(name=name)(postponed(verb))
            continue
        if group not in groups:
            groups[group] = app.command(SubcommandApp(), name=group)
        groups[group].command(name=rest)(postponed(verb))
    return app


_MORE = """vlnbert --plugin my.py VERB ... loads a plugin first, a .py file or a module: what it registers (rewards,
features and others) can then be named, and vlnbert plugins lists it. It may stand anywhere, and more than once. A run
or a file that names a plugin needs it said so, unless this machine has trained with the same bytes.
vlnbert VERB --help explains a verb; start with: vlnbert demo"""
