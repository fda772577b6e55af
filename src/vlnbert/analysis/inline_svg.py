"""Figures as SVG that can stand inside a web page: compact, repeatable, in colours that the page may change."""

import re
from hashlib import blake2b
from io import StringIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from vlnbert.tables import escaped

# A page in a dark scheme sets the same names as CSS variables. Hues are Okabe and Ito's, safe for the colour-blind.
PALETTE = {
    "ink": "#1f2933",
    "quiet": "#5d6874",
    "dot": "#9aa5b1",
    "line": "#d5dbe1",
    "panel": "#f5f6f8",
    "paper": "#ffffff",
    "walked": "#b84a00",
    "reference": "#0072b2",
    "goal": "#00795a",
}

_PROLOGUE = re.compile(r"^.*?(?=<svg )|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>", re.S)
_UNUSED_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')  # matplotlib numbers its artists; only hashed names are referred to
_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT_FAMILY = re.compile(r"(font: [^';]*?px) '[^;\"]*")
_REFERRED = re.compile(r'( id="|href="#|url\(#)')
_LINES = ' style="stroke-linejoin: round; stroke-linecap: butt"'  # matplotlib's defaults, which it sets page-wide


class Picture(Figure):
    """A figure that a notebook shows; one without a window of its own would be a line of text there."""

    def _repr_svg_(self) -> str:
        return figure_svg(self)


def figure_svg(figure: Figure) -> str:
    """The figure as an <svg> element. Its label is for screen readers; the page chooses the typeface."""
    buffer = StringIO()
    unsaid = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vlnbert"}):
        figure.savefig(buffer, format="svg", metadata=unsaid)
    svg = _TAG.sub(_compact_tag, _UNUSED_ID.sub("", _PROLOGUE.sub("", buffer.getvalue())))
    svg = re.sub(r">\s+<", "><", svg).strip()
    svg = _with_own_ids(svg)
    label = escaped(str(figure.get_label()))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}"{_LINES} ', 1)


def _compact_tag(tag: re.Match[str]) -> str:
    """A tag on one line, in hundredths of a point, with the page's own font and colours; text between tags stays."""
    text = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag[0])
    text = _FONT_FAMILY.sub(r"\1 system-ui, sans-serif", re.sub(r"\s+", " ", text))
    for name, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    return text


def _with_own_ids(svg: str) -> str:
    """Make the ids inside a figure its own, since several figures share a page; only equal figures share ids."""
    digest = blake2b(svg.encode(), digest_size=4).hexdigest()
    return _TAG.sub(lambda tag: _REFERRED.sub(rf"\1f{digest}-", tag[0]), svg)
