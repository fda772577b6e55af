"""What a data folder says of a view, for people: from the nearest heading, the surest first, or nothing."""

import shutil

import pytest
import torch

import vlnbert as vln
from tests.conftest import TinyData
from tests.world.samples import furnish
from vlnbert.errors import DataError, VlnbertError
from vlnbert.features.objects import CHANNELS, NEAREST, TextReader, readable_name


def test_each_view_takes_the_nearest_heading() -> None:
    assert NEAREST[:12] == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7]  # of 45 degrees each, for views of 30
    assert NEAREST[:12] * 3 == NEAREST


def test_texts(tiny: TinyData) -> None:
    reader = TextReader(tiny.folder)
    assert reader.of("alpha", "a0", 14) == {
        "captions": "view 2 of a",
        "detections": ["table", "chair"],
        "observations": "a table in a",
    }
    assert reader.of("alpha", "a0", 27)["observations"] == "a ceiling and a lamp"
    assert reader.of("alpha", "a0", 3)["detections"] == ["chair"], "each once"
    assert reader.of("alpha", "nowhere", 3) == reader.of("omega", "a0", 3) == {}


def test_files_are_read_once_and_damage_is_told(tiny: TinyData) -> None:
    reader = TextReader(tiny.folder)
    before = reader.of("alpha", "a0", 14)
    tiny.cut("captions/alpha.json", 40)
    assert reader.of("alpha", "a0", 14) == before
    with pytest.raises(DataError, match=r"captions/alpha.json: .*is not whole JSON"):
        TextReader(tiny.folder).of("alpha", "a0", 14)


def test_words_by_number(tiny: TinyData) -> None:
    data = vln.open_data(tiny.root)
    world, texts = data.world, data.texts
    here = world.find("alpha", "a0")
    assert texts.view(here, 14) == "view 2 of a; a table in a; table, chair"
    assert [texts.view(here, 14, name) for name in CHANNELS] == ["view 2 of a", "a table in a", "table, chair"]
    assert texts.view(here, 12, "detections") == "", "nothing was detected"
    assert texts.view(here, 12) == "view 0 of a; a sofa in a"
    assert texts.view(torch.tensor(here), torch.tensor(14)) == texts.view(here, 14)
    for slot in range(1, int(world.choices[here])):
        for channel in (None, *CHANNELS):
            assert texts.slot(here, slot, channel) == texts.view(here, int(world.view[here, slot]), channel)
    assert texts.slot(here, 0) == texts.slot(here, int(world.choices[here])) == "", "to stop and padding"
    assert vln.open_data(data, features="captions").texts.slot(here, 1) == texts.slot(here, 1)


def test_words_of_objects_stand_as_objects_are_seen(tiny: TinyData) -> None:
    furnish(tiny)
    data = vln.open_data(tiny.root)
    here = data.world.find("alpha", "a1")
    table = data.objects
    rows = range(int(table.first[here]), int(table.first[here] + table.count[here]))
    assert data.texts.objects(here) == [readable_name(table.names[int(table.name[row])]) for row in rows]
    assert data.texts.objects(here)[:3] == ["wall", "door", "sofa chair"]
    assert data.texts.objects(here, "captions") == [f"view {int(table.view[row]) % 6} of a" for row in rows]
    assert data.texts.objects(data.world.find("alpha", "a2")) == []
    few = vln.open_data(data, features=vln.FeatureSpec(objects="names", max_objects=2))
    kept = data.objects.select(data.objects.largest(2))
    first = int(kept.first[here])
    assert few.texts.objects(here) == [readable_name(kept.names[int(kept.name[row])]) for row in (first, first + 1)]


def test_what_nobody_can_read_is_refused(tiny: TinyData) -> None:
    texts = vln.open_data(tiny.root).texts
    refused = {
        "no channel of words 'caption'; did you mean captions?": lambda: texts.slot(0, 1, "caption"),
        "no view 36; a viewpoint has views 0 to 35": lambda: texts.view(0, 36),
        "no viewpoint -1; this world has 0 to 16": lambda: texts.slot(-1, 1),
        "no viewpoint 17; this world has 0 to 16": lambda: texts.objects(17),
    }
    for said, call in refused.items():
        with pytest.raises(VlnbertError) as caught:
            call()
        assert str(caught.value) == said
    shutil.rmtree(tiny.folder.captions)
    texts = vln.open_data(tiny.root).texts
    assert texts.view(0, 14) == "a table in a"
    with pytest.raises(DataError, match=r"holds no detections of views; get them with: vlnbert data fetch"):
        texts.view(0, 14, "detections")
    shutil.rmtree(tiny.folder.observations)
    with pytest.raises(DataError, match=r"holds no words of views; get them with: vlnbert data fetch"):
        vln.open_data(tiny.root).texts.slot(0, 1)
