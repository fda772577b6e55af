"""Small tokenizer.json documents of every kind that is read, and the parts that they are made of."""

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

Document = dict[str, Any]


def charsmap(made: bytes = b"bb") -> bytes:
    """A table that makes a text of the letter A: a root, a node for the letter, its leaf, and the text."""
    trie = np.zeros(512, "<u4")
    trie[0] = 256 << 10
    trie[256 ^ ord("A")] = ord("A") | 1 << 8 | (256 ^ ord("A") ^ 257) << 10
    trie[257] = 1 << 31
    return (4 * len(trie)).to_bytes(4, "little") + trie.tobytes() + made + b"\0"


def precompiled(table: bytes) -> Document:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def replace(pattern: Document, content: str = " ") -> Document:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: Document) -> Document:
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def added(content: str, number: int) -> Document:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **flags}


def template(ends: dict[str, int]) -> Document:
    first, last = ends
    around = [{"SpecialToken": {"id": first, "type_id": 0}}, {"SpecialToken": {"id": last, "type_id": 0}}]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [around[0], text, around[1]],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ends.items()},
    }


def bert() -> Document:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "walk", "##ing", "a", "bb"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added("[PAD]", 0), added("[MASK]", 8)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template({"[CLS]": 2, "[SEP]": 3}),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: number for number, piece in enumerate(pieces)},
        },
    }


def roberta() -> Document:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "w", "a", "wa"]
    return bert() | {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": ["</s>", 2],
            "cls": ["<s>", 0],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {piece: number for number, piece in enumerate(pieces)},
            "merges": [["w", "a"]],
        },
    }


def unigram() -> Document:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b"]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    steps = [replace({"String": "``"}, '"'), precompiled(charsmap()), replace({"Regex": " {2,}"})]
    return bert() | {
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": template({"<s>": 0, "</s>": 2}),
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": 3,
            "vocab": [[piece, -float(number)] for number, piece in enumerate(pieces)],
            "byte_fallback": False,
        },
    }


def changed(make: Callable[[], Document], *place: str, **change: Any) -> Document:
    document = inner = make()
    for name in place:
        inner = inner[name]
    inner.update(change)
    return document
