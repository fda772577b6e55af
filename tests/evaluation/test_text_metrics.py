"""BLEU and CIDEr-D by hand."""

import math

import pytest
import sacrebleu

from vlnbert.errors import UsageError
from vlnbert.evaluation.text_metrics import bleu, cider, words_of

WALKS = [["walk past the sofa and stop", "go by the sofa"], ["climb the stairs"], ["enter the kitchen and wait there"]]


def test_words() -> None:
    assert words_of("Don't stop, walk-through 2 doors!") == ["don't", "stop", "walk", "through", "2", "doors"]


def test_what_people_said_is_perfect() -> None:
    """With one reference each, its own words score 10 where all four orders are there."""
    one = [[some[0]] for some in WALKS if len(some[0].split()) > 3]
    assert cider([some[0] for some in one], one) == pytest.approx(10)
    assert bleu([some[0] for some in one], one) == pytest.approx(100)


def test_nothing_in_common() -> None:
    assert cider(["fly away", "swim", "dig"], WALKS) == 0
    assert bleu(["fly away", "swim", "dig"], WALKS) < 5


def test_cider_by_hand() -> None:
    """One word each: idf of "sofa" is log(2 / 1), of "the" log(2 / 2) = 0."""
    references = [["the sofa"], ["the door"]]
    # of "the sofa sofa" one sofa counts, the reference's, but its norm is that of both; the bigram "the sofa" is shared
    idf = math.log(2)
    unigram = min(2 * idf, idf) * idf / (2 * idf * idf)
    # bigrams told: "the sofa", "sofa sofa" (in no reference: idf log 2 as well), reference: "the sofa"
    bigram = idf * idf / (math.sqrt(2) * idf * idf)
    expected = 10 * (unigram + bigram) / 4 * math.exp(-1 / 72)
    other = cider(["nothing", "nothing"], references)
    assert other == 0
    assert cider(["the sofa sofa", "nothing"], references) == pytest.approx(expected / 2)


def test_bleu_is_sacrebleus() -> None:
    told = ["walk past the sofa and wait", "climb up the stairs now", "enter the kitchen and stop there"]
    streams = [[some[0] for some in WALKS], ["go by the sofa", None, None]]
    assert bleu(told, WALKS) == sacrebleu.corpus_bleu(told, streams, lowercase=True).score > 0


@pytest.mark.parametrize(
    ("told", "references"), [([], []), (["a"], []), (["a"], [[]])], ids=["none", "no references", "an empty one"]
)
def test_what_cannot_be_scored(told: list[str], references: list[list[str]]) -> None:
    for metric in (bleu, cider):
        with pytest.raises(UsageError):
            metric(told, references)
