"""Embeddings equal the plain way's, whatever they are batched with."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.features.samples import plainly, write_bert
from vlnbert.errors import DataError
from vlnbert.features import encoder as module
from vlnbert.features.encoder import encoder_digest, open_encoder
from vlnbert.sources.layout import DataFolder
from vlnbert.weights.options import MINILM

LONG = "a living room with a blue sofa and a window, " * 40
TEXTS = [
    "a hallway with a lamp",
    "",
    "A kitchen.",
    LONG,
    "stairs that lead up to a wooden door",
    "a hallway with a lamp",
]


def test_minilm_as_sentence_transformers_has_it(minilm: Path) -> None:
    found = open_encoder(MINILM).encode(TEXTS)
    assert (found.shape, found.dtype) == ((len(TEXTS), 384), torch.float32)
    assert (found - plainly(minilm, TEXTS)).abs().max() < 1e-5
    assert found[0] @ found[4] < 0.9  # it tells them apart, so the comparison above says something


def test_any_bert_gives_the_mean_of_its_tokens(bert: Path) -> None:
    texts = TEXTS[:3]
    assert (open_encoder(bert).encode(texts) - plainly(bert, texts)).abs().max() < 1e-5


def test_long_texts_lose_their_end_and_keep_their_last_mark(bert: Path) -> None:
    found = open_encoder(bert).encode([LONG])
    assert (found - plainly(bert, [LONG], limit=40)).abs().max() < 1e-5  # a BERT of 40 positions reads no more


def test_neither_order_nor_company_matters(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = open_encoder(bert)
    alone = torch.cat([encoder.encode([text]) for text in TEXTS])
    together = encoder.encode(TEXTS)
    assert (together - alone).abs().max() < 1e-5  # so padding does not matter either
    assert (encoder.encode(TEXTS[::-1]).flip(0) - alone).abs().max() < 1e-5
    monkeypatch.setattr(module, "BATCH", 2)
    assert (encoder.encode(TEXTS) - alone).abs().max() < 1e-5
    assert (alone[0] - alone[4]).abs().max() > 0.1


def test_many_texts_are_kept_in_pieces(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = open_encoder(bert)
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "PIECE", 2)
    plain, kept = encoder.encode(TEXTS), dict[str, torch.Tensor]()

    def keep(name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if name not in kept:
            kept[name] = make()
        return kept[name]

    assert torch.equal(encoder.encode(TEXTS, keep), plain)
    assert list(kept) == ["1-0", "1-2", "1-4"]
    first = kept["1-0"].clone()
    kept["1-0"] *= 2  # what is kept is not made again
    again = encoder.encode(TEXTS, keep)
    assert ((again - plain).abs().sum(dim=1) > 0).sum() == 2
    kept["1-0"] = first
    assert torch.equal(encoder.encode(TEXTS, keep), plain)


@pytest.mark.parametrize("family", ["mpnet", "roberta"])
def test_an_encoder_that_is_no_bert(tmp_path: Path, family: str) -> None:
    """The mean over all tokens as transformers gives it, text by text and so without any padding."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    from tests.navigator.encoders import save_encoder

    folder = save_encoder(tmp_path / family, family)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        ids = [tokenizer(text, return_tensors="pt", truncation=True, max_length=128)["input_ids"] for text in TEXTS]
        means = [model(input_ids=one).last_hidden_state[0].mean(dim=0) for one in ids]
    found = open_encoder(folder).encode(TEXTS)
    assert (found - torch.stack([mean / mean.norm() for mean in means])).abs().max() < 1e-5
    assert (found[0] - found[4]).abs().max() > 0.01
    before = encoder_digest(folder)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    assert encoder_digest(folder) != before


def test_no_texts_no_rows(bert: Path) -> None:
    assert open_encoder(bert).encode([]).shape == (0, 24)


def test_embeddings_may_be_learned_from(bert: Path) -> None:
    """What was computed without gradients must still serve as an input to what has them."""
    weight = torch.ones(24, requires_grad=True)
    found = open_encoder(bert).encode(["a lamp"])
    (found @ weight).sum().backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, found[0])


def test_half_precision_weights_are_read_in_single(house: DataFolder, bert: Path, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "half", house.vocabulary, dtype=torch.float16)
    found = open_encoder(folder).encode(TEXTS[:3])
    assert found.dtype == torch.float32
    assert (found - plainly(folder, TEXTS[:3])).abs().max() < 1e-5
    assert encoder_digest(folder) != encoder_digest(bert)


@pytest.mark.parametrize(
    "name",
    [
        *("model.safetensors", "vocab.txt", "config.json", "tokenizer_config.json"),
        *("vocab.json", "merges.txt", "sentencepiece.bpe.model"),
    ],
)
def test_the_digest_covers_all_that_embeddings_depend_on(house: DataFolder, tmp_path: Path, name: str) -> None:
    folder = write_bert(tmp_path / "one", house.vocabulary)
    before = encoder_digest(folder)
    assert encoder_digest(write_bert(tmp_path / "two", house.vocabulary)) == before
    if name == "model.safetensors":
        write_bert(folder, house.vocabulary, seed=1)
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b" " if (folder / name).exists() else b"{}")
    assert encoder_digest(folder) != before


def test_weights_without_a_vocabulary_cannot_read(house: DataFolder, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "mute", house.vocabulary)
    (folder / "vocab.txt").unlink()
    with pytest.raises(DataError, match=r"mute: comes without a vocabulary, so it cannot read; give a BERT's folder"):
        open_encoder(folder)


def test_no_weights_at_all(tmp_path: Path) -> None:
    for call in (open_encoder, encoder_digest):
        with pytest.raises(DataError, match="no such file or folder; give a checkpoint"):
            call(tmp_path / "none")
