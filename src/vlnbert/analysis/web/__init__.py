"""The viewer of an episode as files for a browser: reports hold them inside, the explorer serves them."""

from importlib.resources import files

SCRIPTS = "plan.js", "episode.js"  # in this order
STYLES = ("episode.css",)


def viewer_script() -> str:
    """One plain script, which defines `vlnbertEpisode.mount(element, record, plan, options)`."""
    return "".join(_read(name) for name in SCRIPTS)


def viewer_style() -> str:
    """The viewer's style sheet, for light and dark screens."""
    return "".join(_read(name) for name in STYLES)


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
