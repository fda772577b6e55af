"""What is wrong with a command, in one line; tyro would draw a box of up to thirty."""

import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache, partial, wraps
from inspect import signature
from io import BytesIO, StringIO, TextIOWrapper
from typing import Any

from vlnbert.cli.helping import readable_help, unbroken
from vlnbert.errors import UsageError, near_names, spelling

Parse = Callable[[list[str]], Any]
Options = Callable[[], tuple[list[str], list[str]]]  # what a command takes by a name, and what by its place
EXPLAINED = re.compile(r"│ (?:-\w, )?(--.*?)(?:  |│|$)", re.MULTILINE)  # where the help explains an option
OPTION = re.compile(r"(?:^|, )(--[\w.-]+)")  # each of its names, behind which its values are told
BY_PLACE = re.compile(r"^│ ([A-Z]+)\b", re.MULTILINE)  # where it explains what has a place and no name
TRAINED = (  # what the settings of experiments begin with
    *("train_on", "validate_on", "best_on", "holdout", "holdout_seed", "features", "training", "start", "max_tokens"),
    *("navigator", "speaker"),
)
RESUME = "--resume"  # what a run keeps is said when it is begun
ELSEWHERE = {"data": "DIR"}  # what other verbs take by a name
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def as_option(place: str, value: object) -> str:
    """A setting as the command line takes it; False turns a flag off."""
    group, dot, name = place.replace("_", "-").rpartition(".")
    if isinstance(value, bool):
        return f"--{group}{dot}{'' if value else 'no-'}{name}"
    return f"--{group}{dot}{name}" if value is None else f"--{group}{dot}{name} {value}"


def as_taken(options: Options, place: str, value: object) -> str:
    """A setting as a command takes it, given its options; one that it does not have, as the command that has it."""
    known, by_place = options()
    for name in (place, place.rpartition(".")[2]):
        if (option := as_option(name, value)).partition(" ")[0] in known:
            return option
    if (metavar := ELSEWHERE.get(place, place.upper())) in by_place:
        return metavar if value is None else str(value)
    group = place.partition(".")[0]
    if group == "features" and RESUME not in known:
        return f"vlnbert evaluate {as_option(place, value)}"
    if group in TRAINED:
        return f"vlnbert train PRESET {as_option(place, value)}"
    return place.replace("_", " ") + ("" if value is None else f" {value}")


def postponed(verb: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """A verb that, called, gives back what is to be done: so parsing is over before anything is done."""

    @wraps(verb)
    def postpone(*values: Any, **named: Any) -> Callable[[], None]:
        return partial(verb, *values, **named)

    postpone.__doc__ = unbroken(verb)
    postpone.__signature__ = signature(verb)  # type: ignore[attr-defined]
    del postpone.__wrapped__  # tyro would read the docstring there
    return postpone


def parsed(parse: Parse, command: str, words: list[str]) -> Callable[[], None]:
    """What the words after a command ask for; `parse` is tyro's reading of them, which prints boxes and exits."""
    with redirect_stderr(StringIO()) as told, readable_help():
        try:
            asked: Callable[[], None] = parse(words)
        except SystemExit as end:
            if end.code != 2:
                raise
        else:
            return partial(_done, asked, cache(partial(_options, parse)))
    raise UsageError(
        f"{_problem(_plain(told.getvalue()), parse, command, words)}; {command} --help lists what it takes"
    )


def _done(asked: Callable[[], None], options: Options) -> None:
    """Do what was asked for, and name only options of this command: they are looked up when one is to be named."""
    with spelling(partial(as_taken, options)):
        asked()


def _problem(box: str, parse: Parse, command: str, words: list[str]) -> str:
    """What tyro's box says, shorter, and with the option that may have been meant."""
    known, by_place = _options(parse)
    given = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    for option in given:
        if known and option not in known:
            return f"no option {option}{_instead(option, known, by_place, command)}"
    if found := re.search(r"Unrecognized options: (\S+?),?(?: |$)", box):
        return f"{command} takes no '{found[1]}'"
    if found := re.search(r"Missing from [^:]+: (.*)", box):
        missing = re.findall(r"(?:^|\(required\) )((?:--\S+ )?\S+)", found[1])
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    if found := re.search(r"Error parsing (--[\w.-]+)[^:]*: .*Argument helptext: .*?--\S+ (\S+)", box):
        return f"{found[1]} is {_value(found[1], words)}, where {found[2]} is expected"
    if found := re.search(r"invalid choice '(.*)' for argument '(?:.*, )?(\S+)'\. Expected one of \((.*?)\)", box):
        choices = sorted(set(re.findall(r"'(.*?)'", found[3])) - {"None"})
        near = near_names(found[1], choices)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose {' or '.join(choices)}"
        return f"{found[2]} is '{found[1]}'; {hint}"
    if found := re.search(r"Missing value for argument '(?:.*, )?(\S+)'", box):
        return f"{found[1]} is followed by no value"
    if found := re.search(r"Expected one of \{(.*)\}", box):
        return f"{command} is followed by {' or '.join(name.strip() for name in found[1].split(','))}"
    return box


def _plain(box: str) -> str:
    """The words in a box: without its frame, its title, colours and where to find help."""
    lines = [line.strip("│╭╮╰╯─ ") for line in COLOUR.sub("", box).splitlines()]
    words = " ".join(line for line in lines if line.strip("-")).split()
    title = next((line for line in lines if line), "").split()
    return " ".join(words[len(title) :]).partition(" For full helptext")[0]


def _options(parse: Parse) -> tuple[list[str], list[str]]:
    """The options that a command's help explains, and what it takes by its place."""
    told = TextIOWrapper(BytesIO(), encoding="utf-8")  # elsewhere the help has no frames
    with redirect_stdout(told), readable_help(), suppress(SystemExit):
        parse(["--help"])
    told.seek(0)
    help = COLOUR.sub("", told.read())
    by_place = BY_PLACE.findall(help.partition(" positional arguments ")[2].partition("╰")[0])
    return [option for options in EXPLAINED.findall(help) for option in OPTION.findall(options)], by_place


def _instead(option: str, known: list[str], by_place: list[str], command: str) -> str:
    """What is taken without a name, the new name of an old option, or those that may have been meant."""
    from vlnbert.learning.run_record import RENAMED
    from vlnbert.records import name_now

    places = {one.removeprefix("--").replace("-", "_"): one for one in known}
    name = option.removeprefix("--").replace("-", "_")
    if ELSEWHERE.get(name, name.upper()) in by_place:
        return f"; write its value alone: {command} {' '.join(by_place)}"
    if now := name_now(name, places, RENAMED):
        return f"; use {places[now]}"
    near = near_names(name, places)
    return f"; did you mean {' or '.join(places[one] for one in near)}?" if near else ""


def _value(option: str, words: list[str]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == option:
            return repr(value if equals else following)
    return "none"
