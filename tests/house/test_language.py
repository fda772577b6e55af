"""Instructions are true, clean English, and made of known words."""

import re
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from tokenizers import BertWordPieceTokenizer

from vlnbert.house import templates
from vlnbert.house.language import describe_object, instructions, matches, write_request
from vlnbert.house.objects import FURNISHING, OBJECT_KINDS
from vlnbert.house.plan import HALLWAY, STAIRS
from vlnbert.house.routes import DOOR, choose_paths, route_steps, turn_of
from vlnbert.house.templates import ORDINALS, SYNONYMS

ANGLES = {  # degrees of turn that a word may stand for, right positive
    "straight": (-30, 30),
    "slight right": (30, 60),
    "right": (60, 140),
    "around": (140, 220),
    "left": (-140, -60),
    "slight left": (-60, -30),
}


def canonical(text):
    """Lower case, with every synonym replaced by the name it stands for."""
    text = text.lower()
    for name, others in SYNONYMS.items():
        for other in others:
            text = re.sub(rf"\b{other}\b", name, text)
    return text


def spoken(task, folder):
    splits = ("train", "val_seen", "val_unseen", "test")
    return [text for split in splits for record in folder.records(task, split) for text in record["instructions"]]


def described_paths(buildings):
    for number, building in enumerate(buildings.values()):
        rng = Random(f"walks {number}")
        for path in choose_paths(rng, building, 40):
            yield building, path, instructions(rng, building, path)


def first_turn(text):
    openings = [(phrase, turn) for turn, options in templates.TURNS.items() for phrase in options]
    return max((len(phrase), turn) for phrase, turn in openings if text.lower().startswith(phrase + " "))[1]


@pytest.mark.parametrize("split", ["train", "val_unseen"])
def test_the_first_turn_is_measured_from_the_start_heading(folder, split):
    for record in folder.records("R2R", split):
        graph = folder.graphs[record["scan"]]
        before = record["heading"] * 180 / 3.141592653589793
        net = {first_turn(text) for text in record["instructions"]}
        assert len(net) == 1
        low, high = ANGLES[net.pop()]
        angle = graph.heading(*record["path"][:2]) - before
        assert (angle - low + 1e-6) % 360 <= high - low + 2e-6


def test_turns_have_the_right_sign():
    assert turn_of(0.0, 90.0) == "right"
    assert turn_of(350.0, 260.0) == "left"
    assert turn_of(350.0, 20.0 - 0.5) == "straight"
    assert turn_of(10.0, 325.0) == "slight left"
    assert turn_of(10.0, 60.0) == "slight right"
    assert turn_of(10.0, 195.0) == "around"


def test_every_turn_of_a_step_is_that_of_the_ground(folder, buildings):
    for building, path, _ in described_paths(buildings):
        graph, names = folder.graphs[building.scan], [viewpoint.name for viewpoint in building.viewpoints]
        before = path.heading * 180 / 3.141592653589793
        for step in route_steps(building, path):
            angle = graph.heading(names[step.nodes[0]], names[step.nodes[1]]) - before
            low, high = ANGLES[step.turn]
            assert (angle - low + 1e-6) % 360 <= high - low + 2e-6
            before = graph.heading(names[step.nodes[-2]], names[step.nodes[-1]])


def test_rooms_that_are_named_are_on_the_way(buildings):
    for building, path, texts in described_paths(buildings):
        plan = building.plan
        on_way = {plan.regions[region].kind for node in path.nodes for region in building.viewpoints[node].regions}
        here = building.viewpoints[path.nodes[-1]].regions[0]
        next_door = {plan.regions[door.beyond(here)].kind for door in plan.doors_of(here)}
        for text in map(canonical, texts):
            named = {room for room in FURNISHING if re.search(rf"\b{room}\b", text)}
            ahead = set(re.findall(r"(?:in front of the door to|wait at the door of) the ([a-z]+(?: room)?)", text))
            assert named - ahead <= on_way
            assert ahead <= next_door


def test_the_stop_is_beside_an_object_in_sight(folder, buildings):
    stops = 0
    for building, path, texts in described_paths(buildings):
        goal = building.viewpoints[path.nodes[-1]]
        seen = [e for e in folder.boxes(building.scan, goal.name).values() if e["visible_pos"]]
        names = {entry["name"].replace("#", " ") for entry in seen}
        kinds = {" ".join(name.split(" ")[1:]) for name in names}
        for text in map(canonical, texts):
            found = re.search(r"(?:next to|by|beside|stop at|near|close to) the ([a-z ]+?)\W*$", text)
            if found and found[1] != "door" and not found[1].endswith("of the stairs"):
                stops += 1
                assert found[1] in names | kinds
                assert found[1] in names or sum(name.endswith(f" {found[1]}") for name in names) == 1
    assert stops > 100


def test_doors_are_counted_as_a_walker_would(buildings):
    """Recount in the world's frame: the doors of the hallway that lie ahead, on the same hand, before the one taken."""
    counted = 0
    for building, path, _ in described_paths(buildings):
        steps = route_steps(building, path)
        for last, step in pairwise(steps):
            if step.action == DOOR and step.ordinal:
                counted += 1
                assert recount(building, last, step) == (step.side, step.ordinal)
    assert counted > 20


def recount(building, last, step):
    plan, (sx, sy, _) = building.plan, building.viewpoints[last.nodes[0]].position
    hall = next(r for r in building.viewpoints[step.nodes[0]].regions if plan.regions[r].kind == HALLWAY)
    box = plan.regions[hall].box
    axis = [b - a for a, b in zip(plan.to_world(box.left, 0), plan.to_world(box.right, 0), strict=True)]
    ex, ey, _ = building.viewpoints[step.nodes[0]].position
    if (ex - sx) * axis[0] + (ey - sy) * axis[1] < 0:
        axis = [-axis[0], -axis[1]]
    size = (axis[0] ** 2 + axis[1] ** 2) ** 0.5
    middle = plan.to_world(*box.centre)
    places = []
    for door in plan.doors_of(hall):
        x, y = plan.to_world(door.x, door.y)
        ahead = ((x - sx) * axis[0] + (y - sy) * axis[1]) / size
        left = (axis[0] * (y - middle[1]) - axis[1] * (x - middle[0])) / size
        if door.along == "x":
            places.append((ahead, "left" if left > 0 else "right", door.index))
    taken = building.viewpoints[step.nodes[1]].door
    side = next(side for _, side, index in places if index == taken)
    order = [index for ahead, hand, index in sorted(places) if hand == side and ahead > 0.9]
    return side, order.index(taken) + 1


def test_floors_that_are_reached_by_stairs_are_named_rightly(buildings):
    named = 0
    for building, path, texts in described_paths(buildings):
        floors = [building.viewpoints[node].floors for node in path.nodes]
        for text in map(canonical, texts):
            for ordinal in re.findall(r"(?:up|down)(?: the stairs)? to the (\w+) floor", text):
                named += 1
                assert any(ORDINALS.index(ordinal) - 1 in here for here in floors[1:])
            rises = building.viewpoints[path.nodes[-1]].position[2] - building.viewpoints[path.nodes[0]].position[2]
            if re.search(r"\b(climb|up the stairs|stairs up)\b", text):
                assert rises > 0
            if re.search(r"\b(descend|down the stairs|stairs down)\b", text):
                assert rises < 0
    assert named > 20


def test_requests_name_one_object_and_say_what_tells_it_apart(buildings):
    rng, made = Random("requests"), 0
    for building in buildings.values():
        path = choose_paths(Random("path"), building, 1)[0]
        for thing in building.objects:
            described = describe_object(rng, building, thing)
            if described is None:
                continue
            made += 1
            assert [other for other in building.objects if matches(building, described, other)] == [thing]
            text = canonical(write_request(rng, building, thing, description=described, path=path))
            said = [thing.kind.name, described.room, described.colour, described.neighbour, described.detail]
            assert all(canonical(part) in text for part in said)
            if described.floor >= 0:
                assert f"{ORDINALS[described.floor + 1]} floor" in text or f"level {described.floor + 1}" in text
    assert made > 0.95 * sum(len(building.objects) for building in buildings.values())


def test_a_vague_description_matches_more_than_one(buildings):
    """The uniqueness above is earned: without the details it would often fail."""
    vague = 0
    for building in buildings.values():
        for thing in building.objects:
            described = describe_object(Random(0), building, thing)
            if described:
                bare = replace(described, colour="", floor=-1, neighbour="", detail="")
                vague += sum(matches(building, bare, other) for other in building.objects) > 1
    assert vague > 50


def test_targets_are_in_sight_within_three_metres_and_not_alone(folder, buildings):
    chances = []
    for split in ("train", "val_seen", "val_unseen"):
        for record in folder.records("REVERIE", split):
            seen = folder.boxes(record["scan"], record["path"][-1])
            visible = [number for number, entry in seen.items() if entry["visible_pos"]]
            assert str(record["objId"]) in visible
            building = buildings[record["scan"]]
            here = [v.name for v in building.viewpoints].index(record["path"][-1])
            assert building.object_distance[here, record["objId"]] <= 3.0
            chances.append(1 / len(visible))
    assert sum(chances) / len(chances) < 1 / 4


def test_no_word_is_unknown(folder):
    tokenizer = BertWordPieceTokenizer(str(folder.path / "vocab.txt"), lowercase=True)
    pieces = (folder.path / "vocab.txt").read_text().splitlines()
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(pieces) == len(set(pieces)) < 500
    texts = spoken("R2R", folder) + spoken("REVERIE", folder)
    texts += [
        v["global_cap"] for views in folder.json(f"captions/{folder.scans[0]}.json").values() for v in views.values()
    ]
    for text in texts:
        tokens = tokenizer.encode(text).tokens
        assert "[UNK]" not in tokens
        assert not any(token.startswith("##") for token in tokens)  # every word is whole
        assert len(tokens) <= 80


def test_english_is_clean_and_varied(folder):
    texts = spoken("R2R", folder) + spoken("REVERIE", folder)
    for text in texts:
        assert not re.search(r"[{}]|  |\ba [aeiou]|\ban [^aeiou]|\bthe the\b|\s[.,]|\band and\b", text)
    assert any(text[0].islower() for text in texts)
    assert any(text[0].isupper() for text in texts)
    assert len(set(texts)) > 0.9 * len(texts)
    for record in folder.records("R2R", "train"):
        assert len(record["instructions"]) == len(set(record["instructions"])) == 3


def test_captions_use_the_right_article(folder):
    for views in folder.json(f"captions/{folder.scans[0]}.json").values():
        for view in views.values():
            for text in [view["global_cap"], *(found["caption"] for found in view["dense_cap"])]:
                assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|[{}]|  ", text)


def test_the_tables_of_words_are_consistent():
    furniture = {kind for always, sometimes in FURNISHING.values() for kind in (*always, *sometimes)}
    assert furniture <= set(OBJECT_KINDS)
    assert set(SYNONYMS) <= {*OBJECT_KINDS, *FURNISHING, HALLWAY, STAIRS, "gray"}
