"""How similar generated instructions are to people's: BLEU-4 by sacrebleu, and CIDEr-D (Vedantam et al. 2015)."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec

from vlnbert.errors import UsageError

ORDERS = 4  # n-grams of one to four words
SIGMA = 6.0  # words of difference in length beyond which CIDEr-D penalises much
WORD = re.compile(r"\w+(?:'\w+)*")

NGrams = Counter[tuple[str, ...]]
Vectors = list[dict[tuple[str, ...], float]]  # by order, the weight of each n-gram


def bleu(generated: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU-4 of a corpus, 0 to 100, by sacrebleu on lower-cased text; each instruction has its references."""
    _check(generated, references)
    require_sacrebleu()
    import sacrebleu

    most = max(len(some) for some in references)
    streams = [[some[place] if place < len(some) else None for some in references] for place in range(most)]
    scored = sacrebleu.corpus_bleu(list(generated), streams, lowercase=True)  # type: ignore[arg-type]  # None is none there
    return float(scored.score)


def cider(generated: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """CIDEr-D of a corpus, times 10 as is usual: 0 if no instruction shares a telling n-gram with its references.

    N-grams are weighted by how few of the paths' references have them, so the score depends on the whole corpus.
    """
    _check(generated, references)
    counted = [[_ngrams(text) for text in some] for some in references]
    documents = Counter(ngram for some in counted for ngram in set().union(*some))
    texts = zip(map(_ngrams, generated), counted, strict=True)
    return sum(_similarity(text, some, documents, len(counted)) for text, some in texts) / len(generated)


def require_sacrebleu() -> None:
    """Refuse to score where `bleu` could not: before instructions are generated, not after."""
    if find_spec("sacrebleu") is None:
        problem = "BLEU needs sacrebleu, which is not installed"
        raise UsageError(f"{problem}; install it with: pip install 'vlnbert[speaker]'")


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased, without marks."""
    return WORD.findall(text.lower())


def _similarity(generated: NGrams, references: list[NGrams], documents: NGrams, count: int) -> float:
    """Ten times the mean, over references and orders, of the cosine of weighted n-grams, less for another length."""

    def words(ngrams: NGrams) -> int:
        return sum(times for ngram, times in ngrams.items() if len(ngram) == 1)

    total, own = 0.0, _weighted(generated, documents, count)
    for reference in references:
        other = _weighted(reference, documents, count)
        apart = words(generated) - words(reference)
        shared = sum(_cosine(mine, its) for mine, its in zip(own, other, strict=True)) / ORDERS
        total += shared * math.exp(-(apart**2) / (2 * SIGMA**2))
    return 10 * total / len(references)


def _cosine(generated: dict[tuple[str, ...], float], reference: dict[tuple[str, ...], float]) -> float:
    """Cosine with CIDEr-D's clipping: repetitions beyond those of the reference do not count."""
    norms = math.sqrt(sum(w * w for w in generated.values()) * sum(w * w for w in reference.values()))
    if not norms:
        return 0.0
    shared = ((weight, reference.get(ngram, 0.0)) for ngram, weight in generated.items())
    return sum(min(weight, other) * other for weight, other in shared) / norms


def _weighted(ngrams: NGrams, documents: NGrams, count: int) -> Vectors:
    vectors: Vectors = [{} for _ in range(ORDERS)]
    for ngram, times in ngrams.items():
        vectors[len(ngram) - 1][ngram] = times * (math.log(count) - math.log(max(1, documents[ngram])))
    return vectors


def _ngrams(text: str) -> NGrams:
    words = words_of(text)
    return Counter(
        tuple(words[start : start + order]) for order in range(1, ORDERS + 1) for start in range(len(words) - order + 1)
    )


def _check(generated: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not generated:
        raise UsageError("nothing was told, so there is nothing to score")
    if len(generated) != len(references) or not all(references):
        raise UsageError("every telling needs at least one reference; give one list of references for each")
