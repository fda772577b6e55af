"""Small BERTs in the Hugging Face layout, and their sentence embeddings the plain way: one text at a time."""

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.features.objects import ObjectSource
from vlnbert.features.spec import FeatureSpec
from vlnbert.features.views import ViewSource
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import World


def of_views(world: World, folder: DataFolder, encoder: str | Path) -> ViewSource:
    return ViewSource(world, folder, FeatureSpec(encoder=str(encoder)))


def of_objects(world: World, folder: DataFolder, objects: ObjectTable, encoder: str | Path) -> ObjectSource:
    return ObjectSource(world, folder, FeatureSpec(encoder=str(encoder)), objects=objects)


def write_bert(folder: Path, vocabulary: Path, seed: int = 0, dtype: torch.dtype = torch.float32) -> Path:
    """A random BERT for a vocabulary; weights large enough for every word to matter."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    pieces = load_tokenizer(vocabulary).get_vocab_size()
    size = {"vocab_size": pieces, "hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 40}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = transformers.BertConfig(**size, num_hidden_layers=2, max_position_embeddings=40, initializer_range=0.3)
        transformers.BertModel(config).to(dtype).save_pretrained(folder)
    shutil.copy(vocabulary, folder / "vocab.txt")
    return folder


def plainly(folder: Path, texts: list[str], limit: int = 128) -> Tensor:
    """[text, width] as sentence-transformers has it: the mean over all tokens, [CLS] and [SEP] too, to length one."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    model = transformers.BertModel.from_pretrained(folder).float().eval()
    tokenizer = load_tokenizer(folder / "vocab.txt")
    with torch.no_grad():
        means = [model(input_ids=_ids(tokenizer, text, limit)).last_hidden_state[0].mean(dim=0) for text in texts]
    return torch.stack([mean / mean.norm() for mean in means])


def _ids(tokenizer: Tokenizer, text: str, limit: int) -> Tensor:
    ids = tokenizer.encode(text).ids
    return torch.tensor([ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]])
