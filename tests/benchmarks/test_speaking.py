"""The plain way of writing writes the same words, and both are timed."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.plain.speaking import write_plainly
from benchmarks.speaking import random_speaker, repeated_paths
from tests.benchmarks.conftest import benched
from vlnbert.data.data import open_data
from vlnbert.speaker.config import Decoding, SpeakerConfig
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.paths import observe_paths
from vlnbert.tasks.batches import piece_count


def test_the_plain_way_writes_the_same(house: Path) -> None:
    data = open_data(house)
    sizes = {"vocabulary": piece_count(data.tokenizer), "feature_width": data.view_bank.width}
    speaker = random_speaker(SpeakerConfig(hidden=16, heads=2, inner=32, **sizes), data, spoken=30)
    paths = repeated_paths(data.episodes("r2r/train"), 7)
    told = InstructionGenerator(speaker, data.environment).generate_once(paths, Decoding(max_tokens=9))
    plainly = write_plainly(speaker, observe_paths(data.environment, paths), 9)
    assert torch.equal(told.tokens, plainly)
    assert not told.ended.any(), "all are equally long"
    assert (plainly[:, 1:] < 34).all(), "so many words may be said"


def test_the_bench_tells_both_ways(house: Path) -> None:
    words = ("speak", "speaker-demo", "--data", house, "--batch", "4", "--tokens", "12", "--words", "50")
    more = ("--rounds", "2", "--threads", "1", "--precision", "float32")
    found = json.loads(benched(*words, *more, "--json").out)
    assert found["sentences"] == 4
    assert found["tokens"] == 11
    assert found["sentences_a_second"] == pytest.approx(4 / found["seconds"])
    assert found["tokens_a_second"] == pytest.approx(44 / found["seconds"])
    assert found["times_plain"] == pytest.approx(found["plain_seconds"] / found["seconds"])
    assert found["memory_bytes"] > 0
    shown = benched(*words, *more, "--decoding", "beam", "--no-plain")
    assert "sentences a second" in shown.out
    assert "plain" not in shown.out
    refused = benched("speak", "r2r-open", "--data", house)
    assert refused.code == 2
    assert "r2r-open trains a navigator" in refused.err
