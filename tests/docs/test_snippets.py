"""Every example in the README and in the docs runs and prints something, in little memory."""

import re
from pathlib import Path

import pytest

from tests.docs.snippets import PAGES, ROOT, blocks, commands, run_page
from tests.docs.tutorial import TUTORIAL

ELSEWHERE = (TUTORIAL, ROOT / "docs" / "extending.md")  # run by tests/test_examples.py and tests/examples/test_page.py
RUN = [page for page in PAGES if page not in ELSEWHERE and {"python", "bash"} & {kind for kind, _ in blocks(page)}]
GIGABYTES = 1.5  # at 64 rows a walk takes 0.4 with torch; 960 rows with gradients, tiny navigator, 1.9


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=[str(page.relative_to(ROOT)) for page in RUN])
def test_examples_run(page: Path, tmp_path: Path) -> None:
    ran = run_page(page, tmp_path)
    silent = [example for example, printed in ran.printed if not printed.strip()]
    assert not silent, f"these print nothing: {silent}"
    assert ran.gigabytes < GIGABYTES


def test_examples_say_their_language() -> None:
    """Only blocks of Python and bash are run."""
    for page in PAGES:
        for language, text in blocks(page):
            shell = re.match(r"(\$ )?(vlnbert|make|pip|python) ", text)
            assert language or not shell, f"{page.name}: a shell block without its language: {text}"


def test_comments_and_long_lines() -> None:
    assert commands("# first\nvlnbert demo  # short\nvlnbert train demo \\\n  --out a\n") == [
        "vlnbert demo",
        "vlnbert train demo    --out a",
    ]
