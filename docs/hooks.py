"""What `make docs` adds to the pages: the reference, and files outside of docs/ that pages link to.

On a code host such links lead to the files themselves; in the site they lead to copies under repository/.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)  # which may hold what looks like a link
# A fence's second word says which reader the tests give the example to; the site's Markdown knows no such fences.
SECOND_WORD = re.compile(r"^(```\w+) \w+$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the README, the examples and whatever else is linked to."""
    texts = {f"{DOCS}{page.src_uri}": Path(page.abs_src_path).read_text() for page in files.documentation_pages()}
    while texts:
        path, text = texts.popitem()
        for target in _targets(path, text):
            if target.startswith(DOCS) or files.get_file_from_path(_place(target)):
                continue
            linked = (ROOT / target).read_text()
            language = "python" if target.endswith(".py") else "text"
            content = linked if _kept(target) else f"# {target}\n\n```{language}\n{linked}\n```\n"
            files.append(File.generated(config, _place(target), content=content, inclusion=InclusionLevel.NOT_IN_NAV))
            if target.endswith(".md"):
                texts[target] = linked
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to where files are in the site; the reference names all that is public."""
    here = page.file.src_uri
    path = here.removeprefix("repository/") if here.startswith("repository/") else f"{DOCS}{here}"
    if here == "reference.md":
        markdown = f"{markdown}\n{_reference()}"

    def moved(link: re.Match[str]) -> str:
        place = _place(_resolved(path, link[1]))
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{link[2] or ''})"

    parts = CODE.split(SECOND_WORD.sub(r"\1", markdown))  # prose and code in turn
    return "".join(part if place % 2 else LINK.sub(moved, part) for place, part in enumerate(parts))


def _targets(path: str, text: str) -> list[str]:
    return [_resolved(path, target) for target, _ in LINK.findall(CODE.sub("", text))]


def _resolved(path: str, target: str) -> str:
    """What a link leads to, from the repository's root."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _place(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return f"repository/{path}" if _kept(path) else f"repository/{path}.md"


def _kept(path: str) -> bool:
    """Pages and notebooks are served as they are; code becomes a page."""
    return path.endswith((".md", ".ipynb"))


def _reference() -> str:
    sys.path.insert(0, str(ROOT / "src"))
    import vlnbert

    def entry(name: str) -> str:
        return f"\n::: {vlnbert._MODULE_OF[name]}.{name}\n    options:\n      heading: vln.{name}\n"

    functions = [entry(name) for name in vlnbert.__all__ if not name[0].isupper()]
    classes = [entry(name) for name in vlnbert.__all__ if name[0].isupper()]
    return "\n".join(["## Functions", *functions, "## Classes", *classes])
