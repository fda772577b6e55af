"""How well agents did: metrics, result files of every dialect, and files for the leaderboards."""

from vlnbert.evaluation.metrics import Scores, measure
from vlnbert.evaluation.results import Notes, Result, read_results
from vlnbert.evaluation.scoring import ScoredFile, score_file, score_results, score_walks
from vlnbert.evaluation.submission import write_results, write_submission

__all__ = [
    "Notes",
    "Result",
    "ScoredFile",
    "Scores",
    "measure",
    "read_results",
    "score_file",
    "score_results",
    "score_walks",
    "write_results",
    "write_submission",
]
