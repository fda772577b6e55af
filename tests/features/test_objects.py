"""Every object is shown by its own name and the caption of its own view, and the second time from the cache."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import load_file

from tests.features.samples import of_objects, plainly, write_bert
from tests.world.samples import furnished
from vlnbert.cli.main import main
from vlnbert.errors import UsageError
from vlnbert.features import encoder
from vlnbert.features import objects as module
from vlnbert.features.objects import ObjectSource, open_named_objects, readable_name
from vlnbert.features.views import index_captions_of, open_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.task import TASKS
from vlnbert.world.build import open_world
from vlnbert.world.objects import ObjectTable, open_object_table
from vlnbert.world.world import World

Run = Callable[..., tuple[int, str, str]]
WORDS = (
    *("room", "door", "window", "sofa", "table", "lamp", "chair", "bed"),
    *("stairs", "hallway", "kitchen", "blue", "red", "green", "left", "right"),
)


@pytest.fixture
def objects(tiny: Any, world: World) -> ObjectTable:
    """A crowd at a0; at a1 objects in views that face no neighbour, one of them a sofa#chair."""
    return furnished(tiny, world)


@pytest.fixture
def captions(tiny: Any) -> Path:
    folder: Path = tiny.folder.captions
    return folder


@pytest.fixture
def source(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> ObjectSource:
    return of_objects(world, tiny.folder, objects, bert)


def closed(*_: object, **__: object) -> NoReturn:
    raise AssertionError("read again")


def shut_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on neither captions are read nor an encoder opened."""
    monkeypatch.setattr(module, "index_captions_of", closed)
    monkeypatch.setattr(encoder, "open_encoder", closed)


def written(data: DataFolder, world: World, objects: ObjectTable, row: int) -> tuple[str, str]:
    """The name of an object and the caption of its view, straight from the files."""
    number, view = int(objects.viewpoint[row]), int(objects.view[row])
    scan, viewpoint = world.scans[int(world.scan_of[number])], world.viewpoints[number]
    boxes = json.loads((data.boxes / f"{scan}_{viewpoint}.json").read_text())[viewpoint]
    said = json.loads((data.captions / f"{scan}.json").read_text())[viewpoint][str(view)]["global_cap"]
    return boxes[objects.ids[row]]["name"].replace("#", " "), said


def test_each_object_shows_its_name_and_its_view(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    _distinct_captions(tiny)
    bank = open_named_objects(of_objects(world, tiny.folder, objects, bert))
    seen = bank.look(torch.arange(len(world)), torch.zeros(len(world), dtype=torch.long))
    pairs = [written(tiny.folder, world, objects, row) for row in range(len(objects))]
    assert "sofa chair" in [name for name, _ in pairs]
    texts = sorted({text for pair in pairs for text in pair})
    vector = dict(zip(texts, plainly(bert, texts), strict=True))
    expected = torch.stack([torch.cat((vector[name], vector[said])) for name, said in pairs])
    assert (bank.width, seen.features.dtype) == (48, torch.float32)
    assert (seen.features[seen.present] - expected).abs().max() < 1e-3  # half precision in the cache
    assert not seen.features[~seen.present].any()
    assert (expected[0] - expected[-1]).abs().max() > 0.1
    assert len(bank.table) == 1 + len(set(pairs)), "a code for each pair"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lamp", "lamp"),
        ("sofa#chair", "sofa chair"),
        ("bathroom##sink", "bathroom sink"),
        ("side_table", "side table"),
        ("stand/table", "stand, table"),
        ("stand#/#small#table", "stand, small table"),
        ("wall#/other#room", "wall, other room"),
        ("window#\\other#room", "window, other room"),
        ("box#/w#books", "box with books"),
        ("table#w/#clutter", "table with clutter"),
        ("door/window", "door, window"),
        ("cow/wall", "cow, wall"),
        ("#lamp/", "lamp"),
        ("#", ""),
    ],
)
def test_names_are_spelled_as_one_would_write_them(name: str, expected: str) -> None:
    assert readable_name(name) == expected


def test_texts_are_read_once(tiny: Any, world: World, bert: Path) -> None:
    tiny.write("reverie/BBox/alpha_a1.json", {"a1": _things("sofa#chair", "sofa/chair", "sofa##chair", "chair")})
    said = of_objects(world, tiny.folder, open_object_table(world, tiny.folder.boxes), bert).describe()
    assert len(said["names"]) == 3, "sofa chair; sofa, chair; chair"
    assert said["captions"].shape == (5, 24), "views 0 and 1 in alpha; 3, which shows what 15 shows, in all three scans"


def test_the_second_opening_reads_and_embeds_nothing(
    tiny: Any, source: ObjectSource, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, objects = source.world, source.objects
    first = open_named_objects(source)
    shut_all(monkeypatch)
    second = open_named_objects(of_objects(world, tiny.folder, objects, bert))
    assert torch.equal(second.table, first.table)
    assert torch.equal(second.row, first.row)
    fewer = open_named_objects(source, max_objects=3)
    assert (fewer.widest, fewer.object_table.left_out) == (3, len(objects) - len(fewer.object_table))
    with pytest.raises(UsageError, match="would leave none"):
        open_named_objects(source, max_objects=0)


def test_the_cache_holds_halves(source: ObjectSource) -> None:
    open_named_objects(source)
    kept = load_file(source.names_key.path)
    assert {name: kept[name].dtype for name in ("names", "captions")} == dict.fromkeys(
        ("names", "captions"), torch.float16
    )


def test_it_lives_where_the_world_does(source: ObjectSource, monkeypatch: pytest.MonkeyPatch) -> None:
    here = open_named_objects(source)
    monkeypatch.setattr(World, "device", torch.device("meta"))  # moved there, it could give no fingerprint
    there = open_named_objects(source)
    assert {there.table.device.type, there.row.device.type, there.first.device.type} == {"meta"}
    assert there.table.shape == here.table.shape


def test_another_encoder_is_another_entry(
    tiny: Any, house: DataFolder, world: World, objects: ObjectTable, bert: Path, tmp_path: Path, cache: Path
) -> None:
    other = write_bert(tmp_path / "other", house.vocabulary, seed=1)
    one, two = (open_named_objects(of_objects(world, tiny.folder, objects, folder)) for folder in (bert, other))
    assert not torch.allclose(one.table, two.table, atol=0.1)
    assert len(list(cache.glob("object-names-*"))) == 2


def test_other_captions_names_views_or_objects_are_another_entry(
    tiny: Any, world: World, objects: ObjectTable, bert: Path
) -> None:
    def key() -> str:
        return of_objects(world, tiny.folder, open_object_table(world, tiny.folder.boxes), bert).names_key.digest

    keys = {key()}
    tiny.edit("captions/alpha.json", lambda document: document["a1"]["9"].update(global_cap="a wall"))
    keys.add(key())
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["7"].update(name="window"))
    keys.add(key())
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["7"].update(name="lamp"))
    keys.add(key())  # a name that others have, too
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["7"].update(visible_pos=[10, 8]))
    assert key() in keys, "the first view of its largest box is still 8"
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["7"].update(visible_pos=[11, 9]))
    keys.add(key())
    keys.add(of_objects(world, tiny.folder, objects.select(torch.arange(3)), bert).names_key.digest)
    assert len(keys) == 6


def test_a_world_without_objects(tiny: Any, bert: Path) -> None:
    world = open_world(tiny.folder)
    none = furnished(tiny, world).select(torch.arange(0))
    bank = open_named_objects(of_objects(world, tiny.folder, none, bert))
    assert (bank.width, len(bank.table)) == (48, 1)


def test_missing_captions_are_named(
    tiny: Any, world: World, objects: ObjectTable, captions: Path, bert: Path, refuses: Any, cache: Path
) -> None:
    def call() -> object:
        return open_named_objects(of_objects(world, tiny.folder, objects, bert))

    tiny.edit("captions/alpha.json", lambda document: document.pop("a2"))
    call()  # nothing is shown there
    tiny.edit("captions/alpha.json", lambda document: document.pop("a1"))
    refuses(captions, call, "scan alpha viewpoint a1: is missing")
    (captions / "gamma.json").unlink()
    refuses(captions / "gamma.json", call, "no such caption file; get them with: vlnbert data fetch DIR")
    assert len(list(cache.glob("object-names-*"))) == 1


def test_who_has_no_neighbour_may_still_show_objects(tiny: Any, world: World, captions: Path, refuses: Any) -> None:
    lonely = torch.tensor([world.find("beta", "b5")])
    assert int(world.choices[lonely]) == 1
    assert index_captions_of(world, captions, lonely, torch.tensor([13])) == (["view 1 of b"], torch.tensor([0]))
    tiny.edit("captions/beta.json", lambda document: document.pop("b5"))
    refuses(
        captions, lambda: index_captions_of(world, captions, lonely, torch.tensor([13])), "scan beta viewpoint b5: is"
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`vlnbert features objects` with some words: its exit code and what it printed."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vlnbert", "features", "objects", "--data", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return call


def test_the_verb_tells_what_was_made(run: Run, house: DataFolder, bert: Path, cache: Path) -> None:
    code, out, err = run(house.root, "--encoder", bert, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    world = open_world(house)
    objects = open_object_table(world, house.boxes)
    assert facts["objects"] == len(objects)
    classes = len(open_labels(world, house.captions)[1])
    widths = {"view-caption": 24, "detections-in-all-views": classes + 24, "box-shape": 5, "observations": 24}
    assert (facts["channels"], facts["width"]) == (widths, sum(widths.values()))
    assert facts["targets"].keys() == TASKS["reverie"].files(house).keys()
    assert facts["targets"]["train"]["at_goal"] > 0
    assert facts["targets"]["test"]["withheld"] > 0
    table = run(house.root, "--encoder", bert)[1]
    rows = dict(re.split(r"  +", line.strip()) for line in table.splitlines() if re.search(r"\S  +[\d,.]+$", line))
    assert rows == {name: f"{width:,}" for name, width in {**widths, "all of them": facts["width"]}.items()}
    assert f"{len(objects):,} objects, " in table
    assert f"train: {facts['targets']['train']['at_goal']:,} targets are visible at the goal" in table
    named = json.loads(run(house.root, "--encoder", bert, "--objects", "names", "--json")[1])
    assert named["channels"] == {"name": 24, "view-caption": 24}


def test_what_is_missing_is_one_line(run: Run, house: DataFolder, bert: Path, tmp_path: Path) -> None:
    mute, empty = (shutil.copytree(house.root, tmp_path / name) for name in ("mute", "empty"))
    shutil.rmtree(mute / "captions")
    shutil.rmtree(empty / "reverie")
    for words, expected in (
        ((mute, "--encoder", bert), "no such caption file; get them with"),
        ((empty, "--encoder", bert), "vlnbert data fetch DIR --only reverie"),
        ((house.root, "--encoder", tmp_path / "no-bert"), "no such file or folder"),
        ((house.root, "--encoder", bert, "--device", "tpu7"), "no device 'tpu7' here"),
        ((house.root, "--encoder", bert, "--objects", "nonsense"), "'nonsense' names no channels; known: names, "),
        ((house.root, "--encoder", bert, "--objects", "name,box"), "no channel 'box'; did you mean box-shape"),
    ):
        code, out, err = run(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert expected in err


def _distinct_captions(tiny: Any) -> None:
    """A caption of its own for every view of a scan, in words that the encoder knows."""
    for path in sorted(tiny.folder.captions.glob("*.json")):
        document = json.loads(path.read_text())
        for place, views in enumerate(document.values()):
            for view, entry in views.items():
                number = place * 36 + int(view)
                entry["global_cap"] = f"{WORDS[number % 16]} {WORDS[number // 16]} {WORDS[len(path.stem)]}"
        path.write_text(json.dumps(document))


def _things(*names: str) -> dict[str, Any]:
    return {
        str(place): {"name": name, "visible_pos": [place % 2], "bbox2d": [[0, 0, 9, 9]]}
        for place, name in enumerate(names)
    }
