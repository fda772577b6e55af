"""A speaker's folder: what is saved is opened again, and what does not fit is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Refuses
from vlnbert.data.data import Data
from vlnbert.errors import DataError
from vlnbert.navigator.storage.folder import describes_speaker
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.paths import Paths
from vlnbert.speaker.speaker import Speaker


@pytest.fixture
def folder(speaker: Speaker, tmp_path: Path) -> Path:
    speaker.save_pretrained(
        tmp_path / "saved", model_card_kwargs={"preset": "mine", "scores": {"r2r/x": {"perplexity": 7}}}
    )
    return tmp_path / "saved"


def test_a_saved_speaker_is_opened_again(data: Data, speaker: Speaker, paths: Paths, folder: Path) -> None:
    opened = Speaker.from_pretrained(folder)
    assert opened.config == speaker.config
    assert opened.features == speaker.features
    assert not opened.training
    weights = opened.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in speaker.state_dict().items())
    first, second = (InstructionGenerator(one, data.environment).generate(paths) for one in (speaker, opened))
    assert torch.equal(first.tokens, second.tokens)
    assert "| r2r/x | 7.00 |" in (folder / "README.md").read_text()


def test_a_speaker_is_told_from_others(folder: Path, tmp_path: Path) -> None:
    assert describes_speaker(folder)
    assert not describes_speaker(tmp_path)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    path.with_name("digests.json").unlink()  # which would say that something changed, whatever it is


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("config.json", lambda it: it.pop("speaker"), "does not describe a speaker"),
        ("config.json", lambda it: it["speaker"].update(hidden=0), "hidden is 0"),
        ("config.json", lambda it: it["speaker"].update(heads=[2]), "heads is [2]"),
        ("config.json", lambda it: it.update(format=2), "is of format 2, made by a newer vlnbert"),
        ("config.json", lambda it: it.update(features=7), "does not say what the speaker was shown"),
        ("config.json", lambda it: it["features"].update(views=7), "does not say what the speaker was shown"),
        ("config.json", lambda it: it["speaker"].update(vocabulary=9), "does not fit its config.json"),
        ("config.json", lambda it: it["speaker"].update(decoder_layers=10**6), "describes 1,000,002 layers, but"),
        ("config.json", lambda it: it["speaker"].update(inner=64), "does not fit its config.json"),
    ],
)
def test_folders_that_do_not_fit_are_refused(
    folder: Path, file: str, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    edit(folder / file, change)
    with pytest.raises(DataError) as caught:
        Speaker.from_pretrained(folder)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_digests_notice_what_changed(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["speaker"]["dropout"] = 0.4
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="is not what was written, by its digest"):
        Speaker.from_pretrained(folder)


def test_another_tokenizer_is_refused(folder: Path, data: Data) -> None:
    edit(folder / "tokenizer.json", lambda it: it["model"]["vocab"].update({"one": 40, "more": 41}))
    with pytest.raises(DataError, match="word pieces, but the weights have embeddings for"):
        Speaker.from_pretrained(folder)


@pytest.mark.parametrize(("name", "told"), [("word.weight", "holds NaN"), ("spoken", "pieces may be written")])
def test_weights_that_are_none_are_refused(speaker: Speaker, tmp_path: Path, name: str, told: str) -> None:
    with torch.no_grad():
        speaker.state_dict()[name].fill_(torch.nan if name != "spoken" else 0)
    speaker.save_pretrained(tmp_path / "broken")
    with pytest.raises(DataError, match=told):
        Speaker.from_pretrained(tmp_path / "broken")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_missing_and_cut_files_are_named(folder: Path, refuses: Refuses, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:40])
    with pytest.raises(DataError, match=name):
        Speaker.from_pretrained(folder)
    (folder / name).unlink()
    refuses(folder, lambda: Speaker.from_pretrained(folder), f"holds no {name}")


def test_a_folder_that_is_not_there(tmp_path: Path, refuses: Refuses) -> None:
    refuses(
        tmp_path / "no/where/at all", lambda: Speaker.from_pretrained(tmp_path / "no/where/at all"), "no such folder"
    )
