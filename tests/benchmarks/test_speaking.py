"""The plain way of writing writes the same words."""

from pathlib import Path

import torch

from vlnbert.benchmarks.plain.speaking import write_plainly
from vlnbert.benchmarks.speaking import random_speaker, repeated_paths
from vlnbert.data.data import open_data
from vlnbert.speaker.config import Decoding, SpeakerConfig
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.paths import observe_paths
from vlnbert.tasks.tokens import piece_count


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
