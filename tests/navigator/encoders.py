"""Tiny encoders of the transformers library with random weights, and tokenizers as their families have them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer, Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace
from tokenizers.processors import RobertaProcessing, TemplateProcessing

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZE = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "max_position_embeddings": 130,
}


def bert_like(*specials: str) -> Tokenizer:
    """WordPiece; the specials come first, then letters."""
    pieces = [*specials, *LETTERS, *(f"##{one}" for one in LETTERS), "walk", "past", "stairs", ",", "."]
    tokenizer = Tokenizer(WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token=specials[3]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    first, last = specials[0] if specials[0] != "[PAD]" else "[CLS]", specials[2]
    ends = [(one, pieces.index(one)) for one in (first, last)]
    tokenizer.post_processor = TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def byte_pairs(*specials: str) -> Tokenizer:
    """BPE over bytes; the specials come first."""
    pieces = [*specials, *sorted(ByteLevel.alphabet()), "wa", "lk"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(BPE(vocabulary, [("w", "a"), ("l", "k")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return tokenizer


def roberta_tokenizer() -> Tokenizer:
    tokenizer = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    return tokenizer


def modernbert_tokenizer() -> Tokenizer:
    """Its specials are added behind the vocabulary."""
    tokenizer, specials = byte_pairs(), ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer.add_special_tokens(specials)
    ends = [(one, tokenizer.token_to_id(one)) for one in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def unigram_tokenizer() -> Tokenizer:
    """As XLM-RoBERTa has it: a list of pieces with scores."""
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(one, 0.0) for one in specials] + [(one, -2.0) for one in ["▁", *LETTERS, "▁walk"]]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=3))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Metaspace()
    tokenizer.add_special_tokens([*specials, "<mask>"])
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


BERT_SPECIALS = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
XML_SPECIALS = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
FAMILIES: dict[str, tuple[type, Callable[[], Tokenizer], dict[str, str]]] = {
    "bert": (transformers.BertConfig, lambda: bert_like("[PAD]", "[CLS]", "[SEP]", "[UNK]"), BERT_SPECIALS),
    "roberta": (transformers.RobertaConfig, roberta_tokenizer, XML_SPECIALS),
    "mpnet": (transformers.MPNetConfig, lambda: bert_like("<s>", "<pad>", "</s>", "<unk>"), XML_SPECIALS),
    "modernbert": (transformers.ModernBertConfig, modernbert_tokenizer, BERT_SPECIALS),
    "xlm-roberta": (transformers.XLMRobertaConfig, unigram_tokenizer, XML_SPECIALS),
}


def save_encoder(folder: Path, family: str, tokenizer: bool = True, **change: Any) -> Path:
    """A folder as transformers writes it."""
    kind, make_tokenizer, specials = FAMILIES[family]
    made = make_tokenizer()
    ids = {f"{name}_id": made.token_to_id(token) for name, token in specials.items() if name != "unk_token"}
    settings = SIZE | {"vocab_size": made.get_vocab_size() + 3, **ids} | change
    if family == "modernbert":
        settings |= {"bos_token_id": ids["cls_token_id"], "eos_token_id": ids["sep_token_id"], "local_attention": 8}
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[]):
        model = transformers.AutoModel.from_config(kind(**settings))
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    if tokenizer:
        transformers.PreTrainedTokenizerFast(tokenizer_object=made, **specials).save_pretrained(folder)
    return folder
