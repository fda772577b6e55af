"""Features in a file of their own: by name and in memory, from Python and the command line, resumed and evaluated."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT
from tests.api.conftest import TINY as CHANGES
from tests.api.test_training import Interrupter
from tests.cli.conftest import TINY, called
from tests.examples.conftest import EXAMPLES
from tests.learning.samples import same, weights
from vlnbert.features.spec import IN_MEMORY
from vlnbert.house import generate

EXAMPLE = EXAMPLES / "own_features.py"
UPDATES = ("--training.iterations", CHANGES["iterations"], "--training.validate-every", CHANGES["validate_every"])


def loaded() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def train(example: dict[str, Any], data: vln.Data, out: Path, *features: Any, **changes: Any) -> vln.Run:
    return example["train"](data, out, *features, **QUIETLY, **{**CHANGES, **changes})


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_both_ways_train_the_same(
    data: vln.Data, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    run = train(loaded(), data, tmp_path / "python")
    assert run.experiment.features.views == "layout", "the function has a name"
    assert run.navigator.config.feature_width == 4
    expected = vln.evaluate(run, split=SPLIT, bar=False).scores
    forget_plugins()
    words = ("train", "demo", "--features.views", "layout", "--data", house, "--out", tmp_path / "words")
    outcome = called("--plugin", EXAMPLE, *words, *TINY, *UPDATES)
    assert outcome.code == 0, outcome.err
    by_words = vln.open_run(tmp_path / "words")
    assert same(weights(by_words.folder), weights(run.folder))
    assert by_words.record.fingerprints == run.record.fingerprints
    forget_plugins()
    assert vln.evaluate(by_words, split=SPLIT, bar=False).scores == expected, "its plugin was loaded again"
    forget_plugins()
    with pytest.raises(vln.UsageError, match=r"no features 'layout': no file, no channel .* and nobody registers them"):
        vln.evaluate(run, split=SPLIT, bar=False)


def test_by_name_it_resumes_to_the_same_bits(
    data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    example = loaded()
    whole = train(example, data, tmp_path / "whole")
    run = train(example, data, tmp_path / "run", callbacks=[Interrupter(2)])
    forget_plugins()
    missed = called("train", "--resume", run.folder)
    assert (missed.code, "no features 'layout'" in missed.err) == (2, True)
    outcome = called("--plugin", EXAMPLE, "train", "--resume", run.folder)
    assert outcome.code == 0, outcome.err
    assert same(weights(run.folder), weights(whole.folder))


def test_what_was_in_memory_is_given_again(
    data: vln.Data, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    example = loaded()
    bank = example["Beside"](data)
    whole = train(example, data, tmp_path / "whole", bank)
    assert whole.experiment.features.views == IN_MEMORY
    assert whole.navigator.config.feature_width == data.view_bank.width + 4
    run = train(example, vln.open_data(house, features=bank), tmp_path / "run", None, callbacks=[Interrupter(2)])
    for again in (run.resume, lambda **how: vln.evaluate(whole, split=SPLIT, bar=False)):
        with pytest.raises(vln.UsageError, match=r"held in memory; give it again: data=vln.open_data\(DIR, features"):
            again(**QUIETLY)
    bank.layout += 1
    with pytest.raises(vln.DataError, match="features changed since the run began"):
        run.resume(data=vln.open_data(house, features=bank), **QUIETLY)
    bank.layout -= 1
    bank = example["Beside"](data)
    run.resume(data=vln.open_data(house, features=bank), **QUIETLY)
    assert same(weights(run.folder), weights(whole.folder))
    other = example["Beside"](data)
    other.layout = other.layout + 1
    for given in ({"features": other}, {"data": vln.open_data(house, features=other)}):
        with pytest.raises(vln.UsageError, match="was trained with other features in memory than these; give those"):
            vln.evaluate(whole, split=SPLIT, bar=False, **given)
    assert vln.evaluate(whole.navigator, data, SPLIT, features=other, bar=False).scores, "it may be tried all the same"
    expected = vln.evaluate(whole, split=SPLIT, features=bank, bar=False).scores
    assert vln.evaluate(run, vln.open_data(house, features=bank), SPLIT, bar=False).scores == expected
    assert vln.report(run, tmp_path / "report.html", vln.open_data(house, features=bank), bar=False).is_file()


def test_another_house_shows_something_else(data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """Features in memory are those of one house; in another there is nothing to compare them with."""
    example = loaded()
    run = train(example, data, tmp_path / "run", example["Beside"](data))
    generate(tmp_path / "elsewhere", scans=3, paths_per_scan=8, seed=1)
    elsewhere = vln.open_data(tmp_path / "elsewhere")
    assert vln.evaluate(run, elsewhere, SPLIT, features=example["Beside"](elsewhere), bar=False).scores


def test_it_is_a_script(
    house: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget_plugins: Callable[[], None],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(house), str(tmp_path / "run"), "1"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert SPLIT in capsys.readouterr().out
