"""`vlnbert train speaker-demo` and `vlnbert speak`."""

import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

import vlnbert as vln
from tests.cli.conftest import called
from vlnbert.speaker.config import Decoding

SMALL = (
    *("--speaker.hidden", "16", "--speaker.heads", "2", "--speaker.inner", "32", "--training.batch", "16"),
    *("--training.iterations", "40", "--training.validate-every", "20", "--training.learning-rate", "0.02"),
    *("--threads", "1"),
)


@pytest.fixture(scope="module")
def spoken(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "speaker"
    outcome = called("train", "speaker-demo", "--data", house, "--out", folder, *SMALL)
    assert outcome.code == 0, outcome.err
    assert "after 20 updates, r2r/val_unseen: perplexity" in outcome.err
    assert "the best after 40, perplexity" in outcome.out
    assert f"let it speak with: vlnbert speak {folder} --split r2r/val_unseen" in outcome.out
    return folder


def test_a_split_is_told(spoken: Path, tmp_path: Path) -> None:
    words = ("speak", spoken, "--split", "r2r/val_unseen", "--decoding", "nucleus")
    shown = called(*words)
    assert shown.code == 0, shown.err
    assert "the speaker" in shown.out
    items = json.loads(called(*words, "--json").out)
    assert items
    assert items[0]["path_id"] in shown.out
    written = called(*words, "--out", tmp_path / "told.json")
    assert written.out == f"wrote {tmp_path / 'told.json'}: {len(items)} instructions\n"
    assert json.loads((tmp_path / "told.json").read_text()) == items


def test_a_split_without_its_task(spoken: Path) -> None:
    for words in (("--json",), ("--score", "--json")):
        whole, short = (
            called("speak", spoken, "--split", split, "--decoding", "nucleus", *words)
            for split in ("r2r/val_unseen", "val_unseen")
        )
        assert (short.code, json.loads(short.out)) == (0, json.loads(whole.out))


def test_what_is_left_out_is_said_once(spoken: Path) -> None:
    outcome = called("speak", spoken, "--split", "r2r/val_unseen", "--max-tokens", "3")
    assert outcome.code == 0
    assert (outcome.out + outcome.err).count("left out: ") == 1


def test_a_path_is_told(spoken: Path) -> None:
    [first, *_] = json.loads(
        called("speak", spoken, "--split", "r2r/val_unseen", "--decoding", "nucleus", "--json").out
    )
    route = f"{first['scan']}:{','.join(first['path'])}"
    outcome = called("speak", spoken, "--path", route, route, "--decoding", "nucleus", "--json")
    assert [item["path"] for item in json.loads(outcome.out)] == [first["path"]] * 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name a split or paths, and not both; for example --split r2r/val_unseen"),
        (("--path", "attic:a,b"), "no scan 'attic'"),
        (("--path", "attic"), "'attic' is no path; write it like scan:viewpoint,viewpoint,..."),
        (("--split", "r2r/val_unseen", "--decoding", "greed"), "did you mean greedy"),
        (("--split", "r2r/val_unseen", "--max-tokens", "99"), "--max-tokens 99 is more than the 80"),
        (
            ("--split", "r2r/val_unseen", "--top-p", "0.5"),
            "--top-p 0.5 is of nucleus decoding, which was not asked for",
        ),
    ],
)
def test_mistakes_end_in_one_line(spoken: Path, words: tuple[str, ...], told: str) -> None:
    outcome = called("speak", spoken, *words)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line


def test_a_speaker_does_not_walk(spoken: Path, house: Path, tmp_path: Path) -> None:
    begin = ("train", "demo", "--data", house, "--out", tmp_path / "run", "--start", spoken)
    for words, told in (
        (("evaluate", spoken), "is a speaker's run, and a speaker does not walk"),
        (("evaluate", spoken / "best", "--data", house), "is a speaker, which does not walk"),
        (begin, "is a speaker's, from which no navigator can start"),
    ):
        outcome = called(*words)
        assert outcome.code == 2
        [line] = outcome.err.splitlines()
        assert told in line


@pytest.mark.parametrize("option", ["--training.max-steps", "--training.flip"])
def test_no_setting_of_a_navigator_is_a_speaker_s(house: Path, tmp_path: Path, option: str) -> None:
    outcome = called("train", "speaker-demo", "--data", house, "--out", tmp_path / "a", option, "1")
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert f"no option {option}" in line
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("verb", [vln.speak, vln.score_speaker, vln.augment_speak], ids=lambda verb: verb.__name__)
def test_keywords_have_the_defaults_of_decoding(verb: Callable[..., object]) -> None:
    known = {name: one.default for name, one in signature(verb).parameters.items()}
    usual = Decoding("nucleus") if verb is vln.augment_speak else Decoding()
    assert {name: known[name] for name in vars(usual)} == vars(usual)
