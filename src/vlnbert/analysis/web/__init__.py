"""The viewer of an episode as files for a browser: reports hold them inside, the explorer serves them."""

from importlib.resources import files

SCRIPTS = "labels.js", "plan.js", "choices.js", "episode.js"  # in this order
STYLES = "episode.css", "still.css"


def viewer_script() -> str:
    """One plain script, which defines `vlnbertEpisode.mount(element, record, plan, options)`."""
    return "".join(read_file(name) for name in SCRIPTS)


def viewer_style() -> str:
    """The viewer's style sheet, for light and dark screens."""
    return "".join(read_file(name) for name in STYLES)


def read_file(name: str) -> str:
    """The text of a file that lies here."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
