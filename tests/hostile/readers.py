"""What reads each format, as a user would: everything that comes of a file counts, and is compared."""

import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch

import vlnbert as vln
from tests.fetching.published import ARCHIVES, GRAPHS, TASKS, serving
from tests.hostile.honest import OBJECTS, SPLIT, VIEWS
from vlnbert.api.arguments import as_option
from vlnbert.api.looking import curves
from vlnbert.cli.main import _run
from vlnbert.errors import spelling
from vlnbert.features.views import open_features
from vlnbert.fetching import download
from vlnbert.fetching.fetch import fetch
from vlnbert.fetching.manifest import read_manifest
from vlnbert.learning.presets import read_experiment
from vlnbert.learning.runs import resume_run
from vlnbert.navigator.model.huggingface import open_pretrained
from vlnbert.plugins import load_plugin
from vlnbert.sources.annotations import read_boxes, read_captions, read_observations
from vlnbert.sources.features import read_object_features
from vlnbert.sources.instructions import read_augmented, read_r2r, read_reverie, read_word_labels
from vlnbert.sources.tokenizer import encode_texts, read_tokenizer_file
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.tasks.word_labels import align_words

Read = Callable[[Path, Path], object]  # of the root that the file lies in, and the file
TEXTS = ["walk to the blue door and stop.", "Go up the stairs, un-chair", "é \U0001d54f [CLS] [SEP] " + "walk " * 50]


TOLD = list[str]()  # what a reader said along the way: what is said is not silent


def world(root: Path, path: Path) -> object:
    return _plain_world(vln.open_data(root / "data"))


def episodes(root: Path, path: Path) -> object:
    """A split with its tokens, in a world; the file's name says which."""
    task, _, split = path.stem.lower().partition("_")
    name = "r2r/aug" if path.stem == "prevalent_aug" else f"{task}/{split}"
    data = vln.open_data(root / "data", features=root / "data" / VIEWS)
    found = data.split(name) if task != "reverie" else data.episodes(name)
    read = read_augmented if "aug" in name else read_reverie if task == "reverie" else read_r2r
    return _plain(found), list(read(path))


def boxes(root: Path, path: Path) -> object:
    return read_boxes(path), vln.open_data(root / "data").episodes(OBJECTS).targets


def captions(root: Path, path: Path) -> object:
    return read_captions(path)


def observations(root: Path, path: Path) -> object:
    return read_observations(path)


def word_labels(root: Path, path: Path) -> object:
    """Labels, and which tokens they are of; what does not fit is told."""
    data = vln.open_data(root / "data")
    labels = read_word_labels(path)
    split, report = align_words(data.split("r2r/train"), labels, data.tokenizer, data.world)
    TOLD.extend(report)
    return labels, split.aligned


def view_features(root: Path, path: Path) -> object:
    opened = vln.open_data(root / "data").world
    return _plain(open_features(opened, path))


def object_features(root: Path, path: Path) -> object:
    return list(read_object_features(path))


def vocabulary(root: Path, path: Path) -> object:
    return [load_tokenizer(path).encode(text).ids for text in TEXTS]


def navigator(root: Path, path: Path) -> object:
    """A navigator as it is opened: weights, shape, limits, what it was shown, and what its tokenizer makes of texts."""
    one = vln.Navigator.from_pretrained(path.parent)
    read = None if one.tokenizer is None else [one.tokenizer.encode(text).ids for text in TEXTS]
    return dict(one.state_dict()), vars(one.config), one.limits, one.features, read


def speaker(root: Path, path: Path) -> object:
    """A speaker as it is opened, and what it says of paths."""
    one = Speaker.from_pretrained(path.parent)
    told = vln.speak(one, root / "data", SPLIT, max_tokens=6, bar=False)
    read = [one.tokenizer.encode(text).ids for text in TEXTS]
    return dict(one.state_dict()), vars(one.config), one.features, read, list(told), told.left_out


def tokenizer(root: Path, path: Path) -> object:
    return encode_texts(read_tokenizer_file(path), TEXTS)


def encoder(root: Path, path: Path) -> object:
    """Somebody's encoder of text, by its folder, with its tokenizer."""
    model, tokens, padding = open_pretrained(str(path.parent))
    return dict(model.state_dict()), encode_texts(tokens, TEXTS), padding


def resumed(root: Path, path: Path) -> object:
    """A run that goes on: weights, moments and average, the settings and where it was."""
    run = vln.open_run(root / path.relative_to(root).parts[0])
    data = vln.open_data(root / "data", features=root / "data" / VIEWS)
    pointer = run.folder / "last.json"
    before = pointer.read_bytes() if pointer.is_file() else None
    try:
        trainer = resume_run(run.folder, data, tell=TOLD.append)
    finally:
        if before is not None and pointer.read_bytes() != before:  # it names the checkpoint before a damaged one now
            pointer.write_bytes(before)
    state = trainer.optimiser.state_dict()["state"]
    averaged, progress = dict(trainer.averaged.weights), (run.progress, trainer.progress)
    return dict(trainer.model.state_dict()), state, averaged, progress, run.record


def shown_run(root: Path, path: Path) -> object:
    """A run as people look at it."""
    run = vln.open_run(root / "run")
    picture = curves(run)
    picture.clear()
    return str(run), run.table().text(), run.log, run.describe_weights()


def scored(root: Path, path: Path) -> object:
    split = OBJECTS if path.stem == "objects" else SPLIT
    found = vln.score(path, root / "data", split)
    return found.summary, found.ids, found.notes.lines()


def submitted(root: Path, path: Path) -> object:
    written = root / "out" / "submission.json"
    vln.submit(path, written, root / "data", SPLIT)
    return written.read_bytes()


def foreign(root: Path, path: Path) -> object:
    """Somebody's weights, imported; and the navigator that they became."""
    source = path.parent if path.parent.name == "bert" else path
    options = {} if path.parent.name == "bert" else {"vocabulary": root / "data" / "vocab.txt"}
    vln.import_weights(source, root / "out" / "imported", **options)
    return dict(vln.Navigator.from_pretrained(root / "out" / "imported").state_dict())


def exported(root: Path, path: Path) -> object:
    """A navigator in the published format, with the tensors that an import kept."""
    vln.export_weights(path.parent, root / "out" / "imported")
    return torch.load(root / "out" / "imported", weights_only=True)


def cached(root: Path, path: Path) -> object:
    """What is opened with the help of the cache."""
    data = vln.open_data(root / "data", features=root / "data" / VIEWS)
    return _plain_world(data), _plain(data.view_bank)


def experiment(root: Path, path: Path) -> object:
    load_plugin(path.with_name("plugin.py"))  # which the honest file names
    found = read_experiment(path)
    return found.experiment, found.name, found.description, found.asked


def plugin(root: Path, path: Path) -> object:
    """The file holds the name of a plugin."""
    load_plugin(path.read_text(errors="surrogateescape"))
    return "loaded"


def manifest(root: Path, path: Path) -> object:
    return read_manifest(path)


def archive(root: Path, path: Path) -> object:
    """Fetched from a server on this machine, and verified; the download itself is given no patience."""
    listed = read_manifest(root / "fetching" / "manifest.json.gz")
    download.PAUSE, download.ATTEMPTS, os.environ["no_proxy"] = 0.0, 2, "127.0.0.1"
    with serving() as server:
        server.archives = {GRAPHS: path.read_bytes() if path.is_file() else b"", TASKS: ARCHIVES[TASKS]}
        fetch(root / "out" / "fetched", listed, mirror=server.url)
    folder = root / "out" / "fetched"
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def checked(root: Path, path: Path) -> object:
    """`vlnbert data check`, which looks at everything in a folder."""
    return _said(root, "data", "check", str(root / "data"), "--json")


def inspected(root: Path, path: Path) -> object:
    return _said(root, "weights", "inspect", str(path.parent if path.parent.name in ("bert", "navigator") else path))


def _said(root: Path, *words: str) -> str:
    out = StringIO()
    try:
        with spelling(as_option), redirect_stdout(out), redirect_stderr(StringIO()):
            _run(list(words))
    except SystemExit as end:
        return f"{end.code} {out.getvalue()}".replace(str(root), "")
    return out.getvalue().replace(str(root), "")


def _plain_world(data: vln.Data) -> Any:
    return _plain(data.world)


def _plain(thing: Any) -> Any:
    """An object as what it holds, without what it only remembers."""
    if hasattr(thing, "__dict__") and not isinstance(thing, type):
        return {name: _plain(value) for name, value in vars(thing).items() if not callable(value) and name != "device"}
    return thing


def tidy(root: Path) -> None:
    """Take away what readers wrote."""
    shutil.rmtree(root / "out", ignore_errors=True)
    (root / "out").mkdir()
