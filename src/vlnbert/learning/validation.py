"""How well a navigator that is being trained walks the splits that it does not learn from."""

from collections.abc import Mapping

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.evaluation.tables import Summary
from vlnbert.learning.experiment import TrainConfig
from vlnbert.navigator import Navigator
from vlnbert.ranks import Ranks
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.tasks.splits import Split
from vlnbert.tasks.task import TASKS


def validation_scores(
    environment: Environment, navigator: Navigator, splits: Mapping[str, Split], config: TrainConfig, ranks: Ranks
) -> dict[str, Summary]:
    """The scores on each of the splits, walked by all ranks together."""
    scores: dict[str, Summary] = {}
    for name, split in splits.items():
        result = evaluate_agent(
            environment,
            GreedyAgent(navigator),
            split.episodes,
            split.tokens,
            max_steps=config.max_steps or TASKS[split.episodes.task].max_steps,
            batch=config.validation_batch,
            ranks=ranks,
        )
        scores[name] = result.scores.summary() if result.scores is not None else {}
    return scores
