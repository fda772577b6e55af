"""Data as a speaker was shown it: whatever it was opened with is the same, or refused in one line."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.conftest import TinyData
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError
from vlnbert.features.spec import OFF
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.paths import Paths
from vlnbert.speaker.speaker import Speaker, shown_to_speaker

Make = Callable[..., Speaker]


def test_plain_data_is_seen_as_the_speaker_learned_it(speaker: Speaker, data: Data, paths: Paths) -> None:
    """Several feature files are in the folder, so that it cannot be seen without naming one."""
    plain = open_data(data.folder.root)
    with pytest.raises(Exception, match="name one with"):
        _ = plain.environment
    shown = shown_to_speaker(speaker, plain)
    assert shown.features.views == data.features.views
    expected, found = (InstructionGenerator(speaker, one.environment).generate(paths) for one in (data, shown))
    assert torch.equal(found.tokens, expected.tokens)


def test_the_same_by_other_words(speaker: Speaker, data: Data, tiny: TinyData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny.root)
    views, width = "features/tiny.hdf5", speaker.config.feature_width
    asked = replace(data.features, views=views, view_width=width, objects=None, max_objects=3)  # it tells of no objects
    assert shown_to_speaker(speaker, data.seen_as(asked)).features == replace(data.features, objects=OFF)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"views": "captions"}, "was trained with views .*tiny.hdf5, and the data is opened with captions"),
        (
            {"view_width": 1},
            r"was trained with view_width \d+, and the data is opened with 1; .* leave out view_width",
        ),
        ({"encoder": "another"}, "was trained with encoder .*MiniLM.*, and the data is opened with another"),
        ({"objects": "detections"}, "was trained with objects names, and the data is opened with detections"),
        ({"objects": OFF}, "was trained with objects names, and the data is opened with off"),
        ({"object_width": 1}, r"was trained with object_width \d+, and the data is opened with 1"),
        ({"max_objects": 1}, "was trained with max_objects without a limit, and the data is opened with 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_differs_is_refused(make_speaker: Make, data_with_objects: Data, asked: dict[str, Any], told: str) -> None:
    speaker = make_speaker(object_width=8)
    speaker.features = data_with_objects.features
    with pytest.raises(UsageError, match=told) as caught:
        shown_to_speaker(speaker, data_with_objects.seen_as(replace(data_with_objects.features, **asked)), "mine")
    assert "\n" not in str(caught.value)
