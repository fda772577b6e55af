"""The tokenizer of somebody's encoder as we use tokenizers: padding is 0, and a token stands at either end."""

import json
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from vlnbert.errors import DataError
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.sources.tokenizer import (
    checked_tokenizer,
    failure_gist,
    numbers_problem,
    read_tokenizer_file,
    require_size,
)

SENTENCE = "walk past the stairs"
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")


def open_tokenizer(transformers: Any, source: str) -> tuple[Tokenizer, int]:
    """The tokenizer that belongs to an encoder, with its padding at 0, and where its padding was before."""
    give = "give an encoder with a tokenizer"
    _check_files(source)
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except BaseException as error:  # the library passes on whatever its parts raise, panics too
        failure_gist(error)
        raise DataError(source, "has no tokenizer that transformers can open", give) from None
    tokenizer = getattr(theirs, "backend_tokenizer", None)
    if not isinstance(tokenizer, Tokenizer) or set(tokenizer.get_vocab()) <= set(theirs.all_special_tokens):
        raise DataError(source, "has no tokenizer that the library tokenizers can run", give)
    if theirs.pad_token_id is None:
        raise DataError(source, "has a tokenizer without a token for padding", give)
    tokenizer = checked_tokenizer(source, json.loads(tokenizer.to_str()))
    ends, words = tokenizer.encode("").ids, tokenizer.encode(SENTENCE).ids
    if len(ends) != 2 or [words[0], words[-1]] != ends:
        raise DataError(source, "has a tokenizer that does not put a token at either end of a sentence", give)
    padding = int(theirs.pad_token_id)
    try:
        return with_padding_first(tokenizer, padding), padding
    except BaseException as error:
        failure_gist(error)
        raise DataError(source, "has a tokenizer whose padding cannot be renumbered", give) from None


def _check_files(source: str) -> None:
    """Check what the library would read of an encoder's tokenizer, before it does; on the hub, the first file."""
    if (folder := Path(source)).is_dir():
        for path in (one for pattern in FILES for one in folder.glob(pattern)):
            require_size(path)
        if (pieces := folder / "vocab.json").is_file():
            numbered = read_json(pieces, "vocabulary")
            if not isinstance(numbered, dict) or numbers_problem(numbered) is not None:
                raise DataError(pieces, "does not number the pieces of a vocabulary", FETCH_AGAIN)
        file = folder / FILES[0]
    else:
        try:
            file = Path(hf_hub_download(source, FILES[0]))
        except Exception:  # there is none, or no network, of which the library says more
            return
    if file.is_file():
        read_tokenizer_file(file)


def with_padding_first(tokenizer: Tokenizer, padding: int) -> Tokenizer:
    """The same tokenizer, but that the token for padding and the first one have exchanged their numbers."""
    if padding == 0:
        return tokenizer
    exchanged = {0: padding, padding: 0}
    numbers = {token: exchanged.get(number, number) for token, number in tokenizer.get_vocab().items()}
    state = json.loads(tokenizer.to_str())
    model, added = state["model"], state["added_tokens"]
    if isinstance(model["vocab"], dict):  # with added tokens inside, which then keep their numbers
        model["vocab"] = numbers
    else:  # Unigram: a list of pieces and scores
        pieces = model["vocab"]
        pieces[0], pieces[padding] = pieces[padding], pieces[0]
        if model.get("unk_id") is not None:
            model["unk_id"] = exchanged.get(model["unk_id"], model["unk_id"])
    for one in added:
        one["id"] = exchanged.get(one["id"], one["id"])
    state["added_tokens"] = sorted(added, key=lambda one: int(one["id"]))
    first, last = tokenizer.encode("").tokens
    state["post_processor"] = None
    renumbered = Tokenizer.from_str(json.dumps(state))
    ends = [(token, numbers[token]) for token in dict.fromkeys((first, last))]
    renumbered.post_processor = TemplateProcessing(single=[first, "$A", last], special_tokens=ends)
    expected = [exchanged.get(number, number) for number in tokenizer.encode(SENTENCE).ids]
    if renumbered.get_vocab() != numbers or renumbered.encode(SENTENCE).ids != expected:
        raise ValueError("the numbers of other tokens changed")
    return renumbered
