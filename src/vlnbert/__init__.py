"""Recurrent VLN-BERT: train, evaluate and explain agents that follow instructions through real houses.

    import vlnbert as vln

    data = vln.generate_house("house", seed=1)             # or vln.open_data("data")
    run = vln.train("demo", data=data, out="runs/a")       # vln.presets lists what can be trained by name
    print(vln.evaluate(run, split="r2r/val_unseen"))
    vln.report(run, "report.html")

The names below are stable: they change with notice. Everything else is open to read and to use, and may move. Nothing
is imported before it is used, so that importing this package takes no time and no torch.
"""

import ast
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:  # what is public, and where it is; `_homes` reads these lines when the package is imported
    from vlnbert.analysis.card import Episode as Episode
    from vlnbert.api.comparing import AgentComparison as AgentComparison
    from vlnbert.api.data import candidates as candidates
    from vlnbert.api.data import caption_features as caption_features
    from vlnbert.api.data import check_data as check_data
    from vlnbert.api.data import check_world as check_world
    from vlnbert.api.data import fetch_data as fetch_data
    from vlnbert.api.data import holdout_houses as holdout_houses
    from vlnbert.api.data import make_r4r as make_r4r
    from vlnbert.api.data import object_features as object_features
    from vlnbert.api.data import view_features as view_features
    from vlnbert.api.demonstrating import demo as demo
    from vlnbert.api.demonstrating import generate_house as generate_house
    from vlnbert.api.looking import compare as compare
    from vlnbert.api.looking import curves as curves
    from vlnbert.api.looking import episode as episode
    from vlnbert.api.looking import evaluate as evaluate
    from vlnbert.api.looking import explore as explore
    from vlnbert.api.looking import report as report
    from vlnbert.api.looking import score as score
    from vlnbert.api.looking import submit as submit
    from vlnbert.api.runs import Run as Run
    from vlnbert.api.runs import open_run as open_run
    from vlnbert.api.speaking import augment_paths as augment_paths
    from vlnbert.api.speaking import augment_speak as augment_speak
    from vlnbert.api.speaking import augment_sub_instructions as augment_sub_instructions
    from vlnbert.api.speaking import score_speaker as score_speaker
    from vlnbert.api.speaking import speak as speak
    from vlnbert.api.training import resume as resume
    from vlnbert.api.training import train as train
    from vlnbert.api.weights import export_weights as export_weights
    from vlnbert.api.weights import import_weights as import_weights
    from vlnbert.api.weights import inspect_weights as inspect_weights
    from vlnbert.data.data import Data as Data
    from vlnbert.data.data import open_data as open_data
    from vlnbert.environment.environment import Environment as Environment
    from vlnbert.errors import DataError as DataError
    from vlnbert.errors import UnknownNameError as UnknownNameError
    from vlnbert.errors import UsageError as UsageError
    from vlnbert.errors import VlnbertError as VlnbertError
    from vlnbert.evaluation.evaluate import Evaluation as Evaluation
    from vlnbert.evaluation.evaluate import Evaluations as Evaluations
    from vlnbert.features.spec import FeatureSpec as FeatureSpec
    from vlnbert.features.spec import register_features as register_features
    from vlnbert.learning.callbacks import Callback as Callback
    from vlnbert.learning.callbacks import register_callback as register_callback
    from vlnbert.learning.experiment import Experiment as Experiment
    from vlnbert.learning.experiment import TrainConfig as TrainConfig
    from vlnbert.learning.losses import Loss as Loss
    from vlnbert.learning.losses import register_loss as register_loss
    from vlnbert.learning.objective import ObjectiveConfig as ObjectiveConfig
    from vlnbert.learning.optimisers import register_optimizer as register_optimizer
    from vlnbert.learning.optimisers import register_schedule as register_schedule
    from vlnbert.learning.presets import Preset as Preset
    from vlnbert.learning.presets import presets as presets
    from vlnbert.learning.presets import save_experiment as save_experiment
    from vlnbert.learning.rewards import RewardConfig as RewardConfig
    from vlnbert.learning.rewards import register_reward as register_reward
    from vlnbert.navigator import Navigator as Navigator
    from vlnbert.navigator import NavigatorConfig as NavigatorConfig
    from vlnbert.navigator import register_backbone as register_backbone
    from vlnbert.plugins import load_plugin as load_plugin
    from vlnbert.rollout.agents import Agent as Agent
    from vlnbert.rollout.agents import Explanation as Explanation
    from vlnbert.rollout.agents import register_agent as register_agent
    from vlnbert.rollout.mixed import Rollout as Rollout
    from vlnbert.rollout.policies import open_policy as open_policy
    from vlnbert.rollout.policies import register_policy as register_policy
    from vlnbert.rollout.policy import Decision as Decision
    from vlnbert.rollout.policy import Inputs as Inputs
    from vlnbert.rollout.policy import Policy as Policy
    from vlnbert.speaker.augmenting import AugmentedFile as AugmentedFile
    from vlnbert.speaker.config import SpeakerConfig as SpeakerConfig
    from vlnbert.speaker.experiment import SpeakerExperiment as SpeakerExperiment
    from vlnbert.speaker.experiment import SpeakerTrainConfig as SpeakerTrainConfig
    from vlnbert.speaker.speaker import Speaker as Speaker
    from vlnbert.speaker.speaking import Instruction as Instruction
    from vlnbert.speaker.speaking import Instructions as Instructions
    from vlnbert.speaker.speaking import SpeakerScores as SpeakerScores
    from vlnbert.tasks.task import R2R as R2R
    from vlnbert.tasks.task import REVERIE as REVERIE
    from vlnbert.tasks.task import Metric as Metric
    from vlnbert.tasks.task import Task as Task
    from vlnbert.tasks.task import register_task as register_task

if not TYPE_CHECKING:  # a type checker knows the names above, and no others

    def _homes() -> dict[str, str]:
        """The module of each public name."""
        source = ast.parse(__loader__.get_source(__name__))
        imports = (line for block in source.body if isinstance(block, ast.If) for line in block.body)
        return {line.names[0].name: line.module for line in imports if isinstance(line, ast.ImportFrom)}

    _MODULE_OF = _homes()
    __all__ = sorted(_MODULE_OF)

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'vlnbert' has no attribute {name!r}", name=name, obj=import_module(__name__))
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
