"""A stranger's run or experiment, with a plugin beside it: every verb that opens one executes nothing of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import vlnbert as vln
from tests.cli.conftest import TINY, called

UPDATES = ("--training.iterations", "2", "--training.validate-every", "2")
SPEAKING = (
    *("--training.batch", "4", "--training.iterations", "2", "--training.validate-every", "2", "--threads", "1"),
    *("--speaker.hidden", "16", "--speaker.heads", "2", "--speaker.inner", "32"),
)
PLUGIN = "evil.py"
VERBS: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate", "RUN", "--data", "HOUSE", "--splits", "val_unseen"),
    "evaluate its last": ("evaluate", "RUN", "--data", "HOUSE", "--checkpoint", "last"),
    "show": ("show", "RUN", "--data", "HOUSE", "--episode", "1_0"),
    "compare": ("compare", "RUN", "random", "--data", "HOUSE"),
    "compare it second": ("compare", "random", "RUN", "--data", "HOUSE"),
    "report": ("report", "RUN", "--data", "HOUSE", "--out", "OUT"),
    "explore": ("explore", "RUN", "--data", "HOUSE", "--port", "0"),
    "weights export": ("weights", "export", "RUN", "OUT"),
    "weights inspect": ("weights", "inspect", "RUN"),
    "resume": ("train", "--resume", "RUN", "--data", "HOUSE"),
    "start": ("train", "demo", "--start", "RUN", "--data", "HOUSE", "--out", "OUT"),
    "train a file": ("train", "FILE", "--data", "HOUSE", "--out", "OUT"),
    "help of a file": ("train", "FILE", "--help"),
    "speak": ("speak", "SPEAKER", "--data", "HOUSE", "--split", "r2r/val_unseen"),
    "augment speak": ("augment", "speak", "SPEAKER", "--data", "HOUSE", "--paths", "PATHS", "--out", "OUT"),
    "follow": ("augment", "speak", "CLEAN", "--paths", "PATHS", "--out", "OUT", "--keep-followed", "RUN"),
}


@pytest.fixture(scope="module")
def made(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A navigator's run and a speaker's."""
    folder = tmp_path_factory.mktemp("made")
    data = ("--data", house, "--features.views", "detections")
    for name, words in {"run": ("demo", *TINY, *UPDATES), "speaker": ("speaker-demo", *SPEAKING)}.items():
        outcome = called("train", *words, *data, "--out", folder / name)
        assert outcome.code == 0, outcome.err
    return folder


@pytest.fixture(params=["a file", "a file by a link", "a module"])
def stranger(
    made: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """What a stranger sent, in which somebody stands; and what it calls its plugin."""
    folder = shutil.copytree(made, tmp_path / "sent")
    shutil.copytree(made / "speaker", folder / "clean")
    for place in (folder, folder / "run", folder / "speaker"):
        (place / PLUGIN).write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    (tmp_path / "link").symlink_to(folder)
    names = {"a file": str(folder / PLUGIN), "a file by a link": str(tmp_path / "link" / PLUGIN), "a module": "evil"}
    name = names[request.param]
    for run in ("run", "speaker"):
        record = json.loads((folder / run / "run.json").read_text())
        (folder / run / "run.json").write_text(json.dumps({**record, "plugins": [name]}))
    (folder / "file.json").write_text(json.dumps({"preset": "demo", "plugins": [PLUGIN if "/" in name else name]}))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend("")
    return folder, name


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("verb", VERBS)
def test_it_is_named_and_not_executed(
    verb: str, stranger: tuple[Path, str], house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    folder, name = stranger
    sent, places = everything(folder), {"RUN": "run", "SPEAKER": "speaker", "CLEAN": "clean", "FILE": "file.json"}
    places |= {"HOUSE": str(house), "PATHS": str(house / "r2r" / "R2R_train.json"), "OUT": "out_aug.json"}
    words = [places.get(word, word) for word in VERBS[verb]]
    outcome = called(*words)
    assert not (tmp_path / "executed").exists()
    assert outcome.code == 2, outcome.err
    *_, line = outcome.err.splitlines()  # what was read of the other ones may be said before
    assert f"the plugin {name if 'FILE' not in VERBS[verb] or '/' not in name else folder / PLUGIN}, with which" in line
    assert line.endswith("if you trust it, name it: --plugin FILE, or vln.load_plugin(FILE)")
    assert everything(folder) == sent


def test_to_look_at_a_run_executes_nothing(
    stranger: tuple[Path, str], tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    """Nor is it refused: what is shown of a run needs no plugin."""
    folder, _ = stranger
    for name in ("run", "speaker"):
        run = vln.open_run(folder / name)
        assert "best" in str(run)
        assert str(folder) in repr(run)
        assert "<table" in run._repr_html_()
        assert len(run.table().rows) == 1
        assert run.describe_weights()
    assert called("curves", "run", "--out", tmp_path / "curves.png").code == 0
    with pytest.raises(vln.UsageError, match="with which nothing was trained"):
        _ = vln.open_run(folder / "run").navigator
    assert not (tmp_path / "executed").exists()


def test_the_task_of_a_plugin_is_not_needed_to_print_a_run(
    made: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    told = {"train_on": ["odd/train"], "validate_on": ["odd/val_unseen"], "best_on": "odd/val_unseen"}
    (run / "run.json").write_text(json.dumps({**record, "experiment": {**record["experiment"], **told}}))
    opened = vln.open_run(run)
    assert " best score 0." in str(opened)
    assert str(opened).endswith("on odd/val_unseen after 2")
    assert "<table" in opened._repr_html_()


def test_who_names_the_plugin_allows_it(
    stranger: tuple[Path, str], house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    _, name = stranger
    words = ("evaluate", "run", "--data", house, "--splits", "val_unseen")
    outcome = called(*words, "--plugin", name)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "executed").exists()
    (tmp_path / "executed").unlink()
    forget_plugins()
    assert called(*words).code == 2, "to evaluate with a plugin is not to train with it"
    assert not (tmp_path / "executed").exists()
