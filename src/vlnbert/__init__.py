"""Recurrent VLN-BERT: train, evaluate and explain agents that follow instructions through real houses.

    import vlnbert as vln

    data = vln.generate_house("house", seed=1)             # or vln.open_data("data")
    run = vln.train("demo", data=data, out="runs/a")       # vln.presets lists what can be trained by name
    print(vln.evaluate(run, split="r2r/val_unseen"))
    vln.report(run, "report.html")

The names below are stable: they change with notice. Everything else is open to read and to use, and may move. Nothing
is imported before it is used, so that importing this package takes no time and no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vlnbert.api.augmenting import augment_paths, augment_speak, augment_sub_instructions
    from vlnbert.api.comparing import AgentComparison, compare
    from vlnbert.api.demonstrating import demo, generate_house
    from vlnbert.api.episodes import Episode, episode
    from vlnbert.api.evaluating import evaluate
    from vlnbert.api.exploring import explore
    from vlnbert.api.features import caption_features, object_features, view_features
    from vlnbert.api.fetching import fetch_data
    from vlnbert.api.inspecting import candidates, check_data, check_world, holdout_houses, make_r4r
    from vlnbert.api.reporting import curves, report
    from vlnbert.api.runs import Run, open_run
    from vlnbert.api.scoring import score, submit
    from vlnbert.api.speaking import score_speaker, speak
    from vlnbert.api.training import resume, train
    from vlnbert.api.weights import export_weights, import_weights, inspect_weights
    from vlnbert.data.data import Data, open_data
    from vlnbert.data.spec import FeatureSpec, register_features
    from vlnbert.environment.environment import Environment
    from vlnbert.errors import DataError, UnknownNameError, UsageError, VlnbertError
    from vlnbert.evaluation.evaluate import Evaluation, Evaluations
    from vlnbert.learning.callbacks import Callback, register_callback
    from vlnbert.learning.experiment import Experiment, TrainConfig
    from vlnbert.learning.experiment_file import save_experiment
    from vlnbert.learning.losses import Loss, register_loss
    from vlnbert.learning.objective import ObjectiveConfig
    from vlnbert.learning.optimisers import register_optimizer, register_schedule
    from vlnbert.learning.presets import Preset, presets
    from vlnbert.learning.rewards import RewardConfig, register_reward
    from vlnbert.navigator import Navigator, NavigatorConfig, register_backbone
    from vlnbert.plugins import load_plugin
    from vlnbert.rollout.agents import Agent, Explanation, register_agent
    from vlnbert.rollout.mixed import Rollout
    from vlnbert.rollout.policies import open_policy, register_policy
    from vlnbert.rollout.policy import Decision, Inputs, Policy
    from vlnbert.speaker.augmenting import AugmentedFile
    from vlnbert.speaker.config import SpeakerConfig
    from vlnbert.speaker.experiment import SpeakerExperiment, SpeakerTrainConfig
    from vlnbert.speaker.scores import SpeakerScores
    from vlnbert.speaker.speaker import Speaker
    from vlnbert.speaker.speaking import Instruction, Instructions
    from vlnbert.tasks.metrics import Metric
    from vlnbert.tasks.task import R2R, REVERIE, Task, register_task

_HOME = {
    "vlnbert.api.augmenting": ("augment_paths", "augment_speak", "augment_sub_instructions"),
    "vlnbert.api.comparing": ("AgentComparison", "compare"),
    "vlnbert.api.demonstrating": ("demo", "generate_house"),
    "vlnbert.api.episodes": ("Episode", "episode"),
    "vlnbert.api.evaluating": ("evaluate",),
    "vlnbert.evaluation.evaluate": ("Evaluation", "Evaluations"),
    "vlnbert.api.exploring": ("explore",),
    "vlnbert.api.features": ("caption_features", "object_features", "view_features"),
    "vlnbert.api.fetching": ("fetch_data",),
    "vlnbert.api.inspecting": ("candidates", "check_data", "check_world", "holdout_houses", "make_r4r"),
    "vlnbert.api.reporting": ("curves", "report"),
    "vlnbert.api.runs": ("Run", "open_run"),
    "vlnbert.api.scoring": ("score", "submit"),
    "vlnbert.api.speaking": ("score_speaker", "speak"),
    "vlnbert.api.training": ("resume", "train"),
    "vlnbert.api.weights": ("export_weights", "import_weights", "inspect_weights"),
    "vlnbert.data.data": ("Data", "open_data"),
    "vlnbert.data.spec": ("FeatureSpec", "register_features"),
    "vlnbert.environment.environment": ("Environment",),
    "vlnbert.errors": ("DataError", "UnknownNameError", "UsageError", "VlnbertError"),
    "vlnbert.learning.experiment": ("Experiment", "TrainConfig"),
    "vlnbert.learning.experiment_file": ("save_experiment",),
    "vlnbert.learning.objective": ("ObjectiveConfig",),
    "vlnbert.learning.presets": ("Preset", "presets"),
    "vlnbert.learning.rewards": ("RewardConfig", "register_reward"),
    "vlnbert.speaker.experiment": ("SpeakerExperiment", "SpeakerTrainConfig"),
    "vlnbert.learning.callbacks": ("Callback", "register_callback"),
    "vlnbert.navigator": ("Navigator", "NavigatorConfig", "register_backbone"),
    "vlnbert.plugins": ("load_plugin",),
    "vlnbert.rollout.agents": ("Agent", "Explanation", "register_agent"),
    "vlnbert.learning.losses": (
        "Loss",
        "register_loss",
    ),
    "vlnbert.learning.optimisers": (
        "register_optimizer",
        "register_schedule",
    ),
    "vlnbert.rollout.policies": (
        "open_policy",
        "register_policy",
    ),
    "vlnbert.rollout.policy": (
        "Decision",
        "Inputs",
        "Policy",
    ),
    "vlnbert.rollout.mixed": ("Rollout",),
    "vlnbert.speaker.config": ("SpeakerConfig",),
    "vlnbert.speaker.augmenting": ("AugmentedFile",),
    "vlnbert.speaker.scores": ("SpeakerScores",),
    "vlnbert.speaker.speaker": ("Speaker",),
    "vlnbert.speaker.speaking": ("Instruction", "Instructions"),
    "vlnbert.tasks.metrics": ("Metric",),
    "vlnbert.tasks.task": ("R2R", "REVERIE", "Task", "register_task"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "R2R",
    "REVERIE",
    "Agent",
    "AgentComparison",
    "AugmentedFile",
    "Callback",
    "Data",
    "DataError",
    "Decision",
    "Environment",
    "Episode",
    "Evaluation",
    "Evaluations",
    "Experiment",
    "Explanation",
    "FeatureSpec",
    "Inputs",
    "Instruction",
    "Instructions",
    "Loss",
    "Metric",
    "Navigator",
    "NavigatorConfig",
    "ObjectiveConfig",
    "Policy",
    "Preset",
    "RewardConfig",
    "Rollout",
    "Run",
    "Speaker",
    "SpeakerConfig",
    "SpeakerExperiment",
    "SpeakerScores",
    "SpeakerTrainConfig",
    "Task",
    "TrainConfig",
    "UnknownNameError",
    "UsageError",
    "VlnbertError",
    "augment_paths",
    "augment_speak",
    "augment_sub_instructions",
    "candidates",
    "caption_features",
    "check_data",
    "check_world",
    "compare",
    "curves",
    "demo",
    "episode",
    "evaluate",
    "explore",
    "export_weights",
    "fetch_data",
    "generate_house",
    "holdout_houses",
    "import_weights",
    "inspect_weights",
    "load_plugin",
    "make_r4r",
    "object_features",
    "open_data",
    "open_policy",
    "open_run",
    "presets",
    "register_agent",
    "register_backbone",
    "register_callback",
    "register_features",
    "register_loss",
    "register_optimizer",
    "register_policy",
    "register_reward",
    "register_schedule",
    "register_task",
    "report",
    "resume",
    "save_experiment",
    "score",
    "score_speaker",
    "speak",
    "submit",
    "train",
    "view_features",
]


if not TYPE_CHECKING:  # a type checker knows the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'vlnbert' has no attribute {name!r}", name=name, obj=import_module(__name__))
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "__version__"])
