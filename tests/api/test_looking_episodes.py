"""One episode from Python: of runs, baselines, agents of one's own and result files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import SPLIT
from vlnbert.analysis.card import write_card
from vlnbert.evaluation.recording import Words


def test_an_episode_has_the_numbers_of_the_evaluation(trained: vln.Run, data: vln.Data) -> None:
    found = vln.evaluate(trained, data, SPLIT, bar=False).per_episode[SPLIT]
    assert len(found) == len(data.episodes(SPLIT))
    for id in list(found)[::7]:
        shown = vln.episode(trained, id, data, bar=False)
        record = shown.record
        assert {"outcome": record.outcome, **record.scores} == found[id]
        assert (record.split, record.agent, record.max_steps) == ("val_unseen", trained.folder.name, 4)
        assert json.loads(shown.to_json()) == json.loads(json.dumps(record.to_json()))
        for words in (record.id, record.ending, record.instruction.text.strip(), "attends to", "SPL"):
            assert words in str(shown)
        assert "<table>" in shown._repr_html_()


def test_every_kind_of_agent(trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    """All but the last walk; a run's folder, a navigator's and the navigator itself are the same."""
    id = data.episodes(SPLIT).ids[3]
    records = [
        vln.episode(agent, id, data, SPLIT, max_steps=4, bar=False).record
        for agent in (trained, str(trained.folder), trained.folder, trained.weights, trained.navigator)
    ]
    assert len({(one.path, one.outcome, str(one.steps)) for one in records}) == 1
    evaluations = vln.evaluate("random", data, SPLIT, seed=3, bar=False)
    (path,) = evaluations.write(tmp_path)
    walked, read = vln.episode("random", id, data, seed=3, bar=False), vln.episode(path, id, data, SPLIT, bar=False)
    assert walked.record.path == read.record.path
    assert walked.record.scores == read.record.scores
    assert (walked.record.outcome, read.record.outcome) == ("stopped", "ended")
    assert "attends to" not in str(read)


@pytest.mark.parametrize(
    ("name", "begin"), [("card.html", b"<!DOCTYPE"), ("card.svg", b"<?xml"), ("c.png", b"\x89PNG")]
)
def test_cards(name: str, begin: bytes, trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    shown = vln.episode(trained, data.episodes(SPLIT).ids[0], data, bar=False)
    assert shown.write(tmp_path / name) == tmp_path / name
    content = (tmp_path / name).read_bytes()
    assert content.startswith(begin)
    if name.endswith(".html"):
        text = content.decode()
        assert f"{shown.record.scores['ne']:.2f}" in text
        assert shown.record.ending in text
        assert text.count('<th scope="row">') == len(shown.record.steps) + 1


def test_typed_markup_stays_text(data: vln.Data, tmp_path: Path) -> None:
    record = vln.episode("shortest", data.episodes(SPLIT).ids[0], data, bar=False).record
    bad = "<script>alert(1)</script> [bold]"
    write_card(tmp_path / "card.html", replace(record, instruction=Words(bad, tuple(bad.split())), agent=bad), data)
    page = (tmp_path / "card.html").read_text()
    assert page.count("<script") == 3, "the record, the plan and the viewer"
    assert "alert(1)</script>" not in page


def without_weights(run: vln.Run, folder: Path) -> Path:
    folder.mkdir()
    (folder / "run.json").write_bytes((run.folder / "run.json").read_bytes())
    return folder


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda run, data, there: vln.episode(run, "nobody", data, bar=False),
            "^no episode 'nobody' in r2r/val_unseen; ",
        ),
        (
            lambda run, data, there: vln.episode(run, data.episodes("r2r/train").ids[0], data, bar=False),
            "; it is in another split: split='r2r/train'$",
        ),
        (lambda run, data, there: vln.episode("stop", "1_0", bar=False), "^no data to walk in; "),
        (lambda run, data, there: vln.episode("r.json", "1_0", data, bar=False), "^r.json is a result file; say which"),
        (lambda run, data, there: vln.episode("r.json", "1_0", data, SPLIT, bar=False), "r.json: no such result file"),
        (
            lambda run, data, there: vln.episode(without_weights(run, there / "begun"), "1_0", data, bar=False),
            "begun: has no weights yet; go on with: vlnbert train --resume .*begun$",
        ),
        (
            lambda run, data, there: vln.compare([run], data, bar=False),
            "^nothing to compare; name two agents or more: ",
        ),
        (
            lambda run, data, there: vln.compare("runs", data, bar=False),
            "^nothing to compare; name two agents or more: ",
        ),
    ],
)
def test_bad_input(call: Any, line: str, trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    with pytest.raises(vln.VlnbertError, match=line):
        call(trained, data, tmp_path)
