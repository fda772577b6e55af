"""The docs are true: what conventions.md shows is read by the readers, what pages name exists. tests/docs has more."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import vlnbert
from vlnbert.cli.main import VERBS
from vlnbert.errors import Faults
from vlnbert.evaluation.results import read_results
from vlnbert.features.opening import as_kept
from vlnbert.fetching.manifest import SHIPPED, read_manifest
from vlnbert.navigator.storage.folder import read_shown
from vlnbert.sources.annotations import read_boxes, read_captions, read_observations, read_plan
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.instructions import read_augmented, read_r2r, read_reverie, read_word_labels, split_words
from vlnbert.world.build import find_candidates

ROOT = Path(__file__).resolve().parents[1]
CONVENTIONS = (ROOT / "docs" / "conventions.md").read_text()
README = (ROOT / "README.md").read_text()


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def read_example(kind: str, text: str, folder: Path) -> object:
    """Give an example to the reader of its kind."""
    names = {"connectivity": "hall_connectivity.json", "boxes": "hall_b.json"}
    path = folder / names.get(kind, "example.json")
    if kind == "view":
        text = json.dumps({"a": {str(view): json.loads(text) for view in range(36)}})
    path.write_text(text)
    readers: dict[str, Callable[[], object]] = {
        "connectivity": lambda: read_connectivity(path),
        "r2r": lambda: list(read_r2r(path)),
        "labels": lambda: _labels(path),
        "augmented": lambda: list(read_augmented(path)),
        "reverie": lambda: list(read_reverie(path)),
        "boxes": lambda: read_boxes(path),
        "view": lambda: read_captions(path),
        "observations": lambda: read_observations(path),
        "plan": lambda: read_plan(path),
        "results": lambda: _results(path),
        "manifest": lambda: _manifest(path),
        "candidates": lambda: _candidates(json.loads(text)),
        "features": lambda: _features(path),
    }
    return readers[kind]()


def _results(path: Path) -> object:
    faults = Faults(path)
    results = read_results(path, faults).results
    faults.raise_if_any()
    return results


def _labels(path: Path) -> object:
    """The example is of R2R's: all of its words are there."""
    texts = {f"7_{k}": text for k, text in enumerate(json.loads(blocks(CONVENTIONS, "json r2r")[0])[0]["instructions"])}
    words = {id: [texts[id][slice(*word)] for word in split_words(texts[id])] for id in texts}
    labels = read_word_labels(path)
    said = {id: [words[id][place] for place in viewpoints["b"]] for id, viewpoints in labels.items()}
    assert said == {"7_0": ["Walk", "past", "the", "sofa"], "7_1": ["stop", "the", "door"]}
    return labels


def _manifest(path: Path) -> object:
    """The example is a part of the real one."""
    path.write_bytes(gzip.compress(path.read_bytes()))
    (shown,) = read_manifest(path).sources
    assert shown in read_manifest(SHIPPED).sources
    return shown


def _features(path: Path) -> object:
    """The example is what the preset's navigator keeps."""
    shown = read_shown(path, json.loads(path.read_text()), "navigator", "")
    assert shown == as_kept(vlnbert.presets["reverie-open"].experiment.features, sees_objects=True)
    return shown


def _candidates(line: dict[str, object]) -> object:
    """The example is what the example graph gives."""
    path = Path("hall_connectivity.json")
    path.write_text(blocks(CONVENTIONS, "json connectivity")[0])
    found = find_candidates(read_connectivity(path))
    names = ("view", "heading", "elevation", "distance", "rank")
    shown = {("idx" if name == "rank" else name): getattr(found, name)[0].item() for name in names}
    assert line == {"viewpoint": "a", "candidates": [{"viewpoint": "b", **shown}]}
    return line


EXAMPLES = re.findall(r"^```json (\w+)\n(.*?)^```", CONVENTIONS, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)])
def test_format_examples_are_read(kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_example(kind, text, tmp_path)


def test_every_kind_of_file_has_an_example() -> None:
    kinds = {kind for kind, _ in EXAMPLES}
    files = {"connectivity", "r2r", "labels", "augmented", "reverie", "boxes", "view", "observations", "plan"}
    assert kinds == files | {"manifest", "results", "candidates", "features"}


LIBRARY = (ROOT / "docs" / "library.md").read_text()


def test_the_library_page_lists_every_public_name() -> None:
    named = set(re.findall(r"`vln\.(\w+)", LIBRARY))
    assert named == set(vlnbert.__all__)


def test_the_first_python_example_takes_five_lines() -> None:
    lines = [line for line in blocks(README, "python")[0].splitlines() if line.strip()]
    assert len(lines) <= 5


def test_the_architecture_lists_every_package() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    table = architecture.partition("## Packages\n")[2].partition("\n## ")[0]
    there = {path.stem for path in (ROOT / "src" / "vlnbert").iterdir() if not path.name.startswith(("_", "py."))}
    assert all(f"`{name}`" in table or f"`{name}/`" in table for name in there), there


def test_every_command_in_the_docs_exists() -> None:
    texts = [README, *(path.read_text() for path in (ROOT / "docs").rglob("*.md"))]
    named = {match for text in texts for match in re.findall(r"vlnbert ([a-z]+(?: [a-z][a-z0-9-]*)?)", text)}
    commands = {name for name in named if name.split()[0] in {verb.split()[0] for verb in VERBS}}
    assert commands
    for name in commands:
        assert name in VERBS or name.split()[0] in VERBS, f"the docs name `vlnbert {name}`, which does not exist"
