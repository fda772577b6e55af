"""A record says what the scored rollout did, to the last number; words of an instruction as they are read."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import TemplateProcessing

import vlnbert as vln
from tests.analysis.conftest import SPLIT, Pacing
from tests.conftest import TinyData
from vlnbert.analysis.page import laid_out, most_read
from vlnbert.api.runs import load_agent
from vlnbert.evaluation.evaluate import Evaluation, evaluate_file
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import Recorder, read_words
from vlnbert.evaluation.walker import Walker

REVERIE = "reverie/val_unseen"


@pytest.fixture(scope="module")
def walked(house: vln.Data, navigator: vln.Navigator) -> tuple[Recorder, Evaluation]:
    ready = Walker(load_agent(navigator), house, SPLIT, WalkOptions(max_steps=6))
    return ready.recorder, ready.walk(SPLIT, record=True)


def test_a_record_is_the_walk_that_was_scored(walked: tuple[Recorder, Evaluation], house: vln.Data) -> None:
    recorder, evaluation = walked
    assert len(set(evaluation.outcomes)) == 2, "some stop and some run out of steps"
    trajectories, episodes, world, scores = evaluation.trajectories, evaluation.episodes, house.world, evaluation.scores
    assert scores is not None
    for row in range(0, len(episodes), 5):
        record, length = recorder.episode(evaluation, row), int(trajectories.length[row])
        numbers = [world.find(record.scan, name) for name in record.path]
        assert numbers == trajectories.viewpoint[row, :length].tolist()
        assert (record.id, record.instruction.text) == (episodes.ids[row], episodes.texts[row])
        assert record.outcome == ("stopped" if length <= 6 else "ran out of steps")
        assert len(record.steps) == min(length, 6)
        assert record.scores == {name: float(getattr(scores, name)[row]) for name in record.scores}
        assert {"sr", "spl", "ne", "ndtw"} <= set(record.scores)
        assert record.success is bool(scores.sr[row])
        assert [world.find(record.scan, name) for name in record.reference or ()][-1] == int(episodes.goal[row])
        for step, here, view in zip(record.steps, numbers, trajectories.view[row].tolist(), strict=False):
            place, goal = torch.tensor(here), episodes.goal[row]
            assert (step.viewpoint, step.view) == (world.viewpoints[here], view)
            assert step.distance_to_goal == float(world.metres(place, goal))
            assert step.teacher == int(world.slot_toward(place[None], goal[None]))
            assert [choice.viewpoint for choice in step.choices[1:]] == [
                world.viewpoints[number] for number in world.neighbour[here, 1 : int(world.choices[here])].tolist()
            ]


def test_choices_have_the_probabilities_that_decided(walked: tuple[Recorder, Evaluation]) -> None:
    recorder, evaluation = walked
    for row in range(len(evaluation.episodes)):
        record = recorder.episode(evaluation, row)
        for number, step in enumerate(record.steps):
            chances = [choice.probability for choice in step.choices]
            assert sum(chances) == pytest.approx(1, abs=1e-5)
            assert step.chosen == chances.index(max(chances))
            last = number == len(record.path) - 1
            assert step.choices[step.chosen].viewpoint == (None if last else record.path[number + 1])
            assert step.attention is not None
            assert len(step.attention) == len(record.instruction.words)
            assert 0 < sum(step.attention) <= 1 + 1e-5


def test_one_episode_alone_is_the_same_to_the_last_bit(
    walked: tuple[Recorder, Evaluation], house: vln.Data, navigator: vln.Navigator
) -> None:
    recorder, evaluation = walked
    ready = Walker(load_agent(navigator), house, SPLIT, WalkOptions(max_steps=6))
    chosen = [evaluation.episodes.ids[row] for row in (7, 2)]
    alone = ready.walk(SPLIT, record=True, only=chosen)
    assert alone.episodes.ids == tuple(chosen)
    for number, row in enumerate((7, 2)):
        assert ready.recorder.episode(alone, number) == recorder.episode(evaluation, row)


def test_recording_changes_nothing(house: vln.Data, navigator: vln.Navigator) -> None:
    ready = Walker(load_agent(navigator), house, SPLIT, WalkOptions(max_steps=6, batch=7))
    plain, recorded = ready.walk(SPLIT), ready.walk(SPLIT, record=True)
    assert torch.equal(plain.trajectories.viewpoint, recorded.trajectories.viewpoint)
    assert plain.explanations == {}
    assert sorted(recorded.explanations) == list(range(len(plain.episodes)))


@pytest.mark.parametrize("limit", [3, 17])
def test_who_never_stops_runs_out_of_steps(house: vln.Data, limit: int) -> None:
    """Whatever the limit is, and the scores are those of that limit."""
    ready = Walker(load_agent(Pacing()), house, SPLIT, WalkOptions(max_steps=limit))
    evaluation = ready.walk(SPLIT, record=True)
    assert set(evaluation.outcomes) == {"ran out of steps"}
    assert evaluation.scores is not None
    record = ready.recorder.episode(evaluation, 1)
    assert (record.outcome, record.max_steps, len(record.steps)) == ("ran out of steps", limit, limit)
    assert len(record.path) == limit + 1
    assert record.ending == f"ran out of steps after {limit}, {evaluation.scores.ne[1]:.2f} m from the goal"
    assert {choice.probability for step in record.steps for choice in step.choices} == {None}
    assert {step.attention for step in record.steps} == {None}
    assert record.instruction.words == tuple(record.instruction.text.split())
    assert [step.choices[step.chosen].viewpoint for step in record.steps] == list(record.path[1:])


def test_a_record_is_plain_json(walked: tuple[Recorder, Evaluation]) -> None:
    recorder, evaluation = walked
    document = json.loads(json.dumps(recorder.episode(evaluation, 0).to_json(), allow_nan=False))
    assert document["format"] == 1
    assert set(document) == {
        *("format", "task", "split", "id", "scan", "agent", "max_steps", "instruction", "path", "reference", "goal"),
        *("goals", "steps", "outcome", "success", "named_object", "target_object", "scores"),
        *("verdict", "ending"),
    }
    assert set(document["steps"][0]) == {
        *("viewpoint", "heading", "elevation", "view", "distance_to_goal", "choices", "chosen", "teacher", "hops"),
        *("attention", "objects"),
    }
    assert set(document["steps"][0]["choices"][0]) == {
        *("viewpoint", "heading", "elevation", "distance", "view", "probability", "texts"),
    }
    assert document["goal"] in document["goals"]


def test_withheld_goals_stay_so(house: vln.Data, navigator: vln.Navigator) -> None:
    ready = Walker(load_agent(navigator), house, "r2r/test", WalkOptions(max_steps=4))
    record = ready.recorder.episode(ready.walk("r2r/test", record=True), 0)
    assert (record.reference, record.goal, record.goals, record.success, record.scores) == (None, None, None, None, {})
    assert {(step.teacher, step.distance_to_goal) for step in record.steps} == {(None, None)}
    assert record.verdict == "Goal withheld"


def test_objects_are_recorded_with_their_scores(house: vln.Data, finder: vln.Navigator) -> None:
    ready = Walker(load_agent(finder), house, REVERIE, WalkOptions(max_steps=6))
    evaluation = ready.walk(REVERIE, record=True)
    assert evaluation.predicted_objects is not None
    for row in range(0, len(evaluation.episodes), 3):
        record = ready.recorder.episode(evaluation, row)
        named = None if record.named_object is None else record.named_object.id
        assert named == evaluation.predicted_objects[row]
        assert record.target_object is not None
        assert record.target_object.id == evaluation.episodes.targets[row]
        assert evaluation.episodes.sightings is not None
        shown = {number for number in evaluation.episodes.sightings[row].tolist() if number >= 0}
        assert set(record.goals or ()) == {house.world.viewpoints[number] for number in shown}
        for step in record.steps:
            assert sum(one.probability or 0 for one in step.objects) <= 1 + 1e-5
            assert all(one.probability is not None for one in step.objects)
        if record.outcome == "stopped" and named is not None:
            last = record.steps[-1]
            assert named == max(last.objects, key=lambda one: one.probability or 0).id
    assert any(step.objects for step in record.steps)


def test_a_baseline_shows_the_objects_that_it_does_not_see(house: vln.Data) -> None:
    ready = Walker(load_agent("random"), house, REVERIE)
    record = ready.recorder.episode(ready.walk(REVERIE, record=True), 0)
    assert any(step.objects for step in record.steps)
    assert {one.probability for step in record.steps for one in step.objects} == {None}
    assert record.named_object is None


def test_a_result_file_is_recorded_too(house: vln.Data, tmp_path: Path) -> None:
    found = vln.evaluate("random", house, SPLIT, bar=False)
    (path,) = found.write(tmp_path)
    evaluation = evaluate_file(path, house.episodes(SPLIT), house.world)
    recorder, own = Recorder(house, "a file"), Recorder(house, "random")
    for row in (0, 3):
        record, expected = recorder.episode(evaluation, row), own.episode(found[SPLIT], row)
        assert (record.outcome, record.max_steps, expected.outcome) == ("ended", None, "stopped")
        assert (record.path, record.scores, record.success) == (expected.path, expected.scores, expected.success)
        assert record.steps == expected.steps


def test_turns_in_place_are_no_decisions(house: vln.Data, tmp_path: Path) -> None:
    episodes = house.episodes(SPLIT)
    names = [house.world.viewpoints[number] for number in episodes.path[0, : int(episodes.path_length[0])].tolist()]
    path = tmp_path / "turning.json"
    turning = [names[0], names[0], *names[1:], names[-1]]
    path.write_text(json.dumps([{"instr_id": episodes.ids[0], "trajectory": [[name, 0, 0] for name in turning]}]))
    evaluation = evaluate_file(path, episodes, house.world)
    record = Recorder(house, "turning").episode(evaluation, 0)
    assert list(record.path) == names
    assert [step.viewpoint for step in record.steps] == names
    assert [step.teacher for step in record.steps][-1] == 0
    assert record.success


def test_what_views_show_is_told(tiny: TinyData) -> None:
    data = vln.open_data(tiny.root)
    ready = Walker(load_agent("shortest"), data, "r2r/train")
    record = ready.recorder.episode(ready.walk("r2r/train"), 0)
    step = record.steps[0]
    for choice in step.choices[1:]:
        entry = tiny.read("captions/alpha.json")[step.viewpoint][str(choice.view)]
        assert choice.texts["captions"] == entry["global_cap"]
        assert Counter(choice.texts["detections"]) == Counter({item["obj_class"] for item in entry["dense_cap"]})
        assert choice.texts["observations"].split(" a ")[-1]
    assert step.choices[0].texts == {}
    for folder in ("captions", "observations"):
        for path in tiny.path(folder).iterdir():
            path.unlink()
    bare = Recorder(data, "shortest").episode(ready.walk("r2r/train"), 0)
    assert {tuple(choice.texts) for step in bare.steps for choice in step.choices} == {()}


TEXT = "Walk past Zoe's bookshelves."


def word_pieces() -> Tokenizer:
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "walk", "past", "book", "##shel", "##ves", ".", "'", "s")
    tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def bytes_of_pairs() -> Tokenizer:
    letters = {"<pad>": 0, "<s>": 1, "</s>": 2} | {
        letter: n + 3 for n, letter in enumerate(sorted(ByteLevel.alphabet()))
    }
    tokenizer = Tokenizer(BPE(letters, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def test_pieces_of_a_word_are_joined() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, TEXT, tokenizer.encode(TEXT).ids)
    assert read.words == ("Walk", "past", "Zoe", "'", "s", "bookshelves", "."), "spelled as they were written"
    assert read.unknown == (2,)
    weights = [0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.1, 0.15, 0.1, 0.1]  # of the tokens after [CLS], [SEP] last
    assert read.gathered(weights) == pytest.approx((0.1, 0.1, 0.1, 0.1, 0.1, 0.3, 0.1))


def test_words_are_laid_out_as_they_were_typed() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, TEXT, tokenizer.encode(TEXT).ids)
    pieces = laid_out(TEXT, read.words)
    assert "".join(piece for piece, _ in pieces) == TEXT
    assert [piece for piece, place in pieces if place is not None] == list(read.words)
    cut = read_words(tokenizer, TEXT, [*tokenizer.encode(TEXT).ids[:3], 3])
    assert laid_out(TEXT, cut.words)[-1] == (" Zoe's bookshelves.", None), "what was not read stays"


def test_tokens_that_came_ready_made_are_laid_out_as_they_are_read() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, "Something else", tokenizer.encode(TEXT).ids)
    assert read.words == ("walk", "past", "[UNK]", "'", "s", "bookshelves", ".")
    assert "".join(piece for piece, _ in laid_out("Something else", read.words)) == "walk past [UNK]' s bookshelves."


def test_punctuation_is_not_what_was_read_most() -> None:
    assert most_read(["go", ",", "left", ",", "."], [0.1, 0.5, 0.2, 0.1, 0.1], 3) == ["go", "left"]


def test_other_tokenizers_are_read_by_their_places_in_the_text() -> None:
    tokenizer = bytes_of_pairs()
    ids = tokenizer.encode(TEXT).ids
    read = read_words(tokenizer, TEXT, ids)
    assert "".join(read.words) == TEXT.replace(" ", "")
    assert read.words[:2] == ("Walk", "past")
    assert sum(read.gathered([1.0] * (len(ids) - 1))) == len(ids) - 2
    assert len(read_words(tokenizer, "something else", ids).words) == len(ids) - 2, "tokens that came ready made"
