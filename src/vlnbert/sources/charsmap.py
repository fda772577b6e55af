"""The table by which SentencePiece normalises characters, checked: a damaged one ends the process that uses it.

It is a trie (a double array as darts-clone lays it out, in blocks of 256 units) and the texts that its leaves point to,
each with a zero byte at its end.
"""

import base64
import binascii

import numpy as np

BLOCK = 256  # units
LONGEST = 64  # bytes that a character may become; 33 in Unicode's own tables
LEAF = np.uint32(1 << 31)


def charsmap_problem(encoded: object) -> str | None:
    """What is wrong with a table, as a tokenizer.json holds it, if anything is."""
    try:
        content = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    length = int.from_bytes(content[:4], "little")
    if not length or length % (4 * BLOCK) or 4 + length >= len(content):
        return "holds no whole table of characters"
    texts, trie = content[4 + length :], np.frombuffer(content, "<u4", length // 4, offset=4)
    try:
        texts.decode()
    except UnicodeDecodeError:
        return "holds a table of characters that is not UTF-8 text"
    if not texts.endswith(b"\0") or max(map(len, texts.split(b"\0"))) > LONGEST:
        return "holds a table that makes long texts of characters"
    return None if _leads_to_texts(trie, texts) else "holds a table of characters that leads nowhere"


def _leads_to_texts(trie: np.ndarray, texts: bytes) -> bool:
    """Whether every step stays within the trie, and every leaf points to the beginning of a text."""
    leaf = (trie & LEAF) > 0
    offset = (trie >> 10) << ((trie & (1 << 9)) >> 6)  # where a unit's children are, by its own place
    children = np.arange(len(trie), dtype=np.uint32) ^ offset
    inner = ~leaf
    if (children[inner] // BLOCK >= len(trie) // BLOCK).any():
        return False
    with_value = inner & ((trie & (1 << 8)) > 0)
    if not leaf[children[with_value]].all():
        return False
    begins = np.flatnonzero(np.frombuffer(b"\0" + texts[:-1], np.uint8) == 0)
    return bool(np.isin(trie[leaf] & ~LEAF, begins).all())
