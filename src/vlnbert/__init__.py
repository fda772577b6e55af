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
    from vlnbert.api.demonstrating import demo, generate_house
    from vlnbert.api.evaluating import Evaluations, evaluate
    from vlnbert.api.inspecting import candidates, caption_features, check_data, check_world, object_features
    from vlnbert.api.reporting import curves, report
    from vlnbert.api.runs import Run, open_run
    from vlnbert.api.scoring import score, submit
    from vlnbert.api.training import resume, train
    from vlnbert.api.weights import export_weights, import_weights, inspect_weights
    from vlnbert.data.data import Data, open_data
    from vlnbert.data.spec import FeatureSpec
    from vlnbert.environment.environment import Environment
    from vlnbert.errors import DataError, UsageError, VlnbertError
    from vlnbert.learning.experiment import Experiment, TrainConfig
    from vlnbert.learning.presets import presets
    from vlnbert.learning.trainer import Callback
    from vlnbert.navigator import Navigator, NavigatorConfig
    from vlnbert.rollout.agents import Agent, register_agent

_HOME = {
    "vlnbert.api.demonstrating": ("demo", "generate_house"),
    "vlnbert.api.evaluating": ("Evaluations", "evaluate"),
    "vlnbert.api.inspecting": ("candidates", "caption_features", "check_data", "check_world", "object_features"),
    "vlnbert.api.reporting": ("curves", "report"),
    "vlnbert.api.runs": ("Run", "open_run"),
    "vlnbert.api.scoring": ("score", "submit"),
    "vlnbert.api.training": ("resume", "train"),
    "vlnbert.api.weights": ("export_weights", "import_weights", "inspect_weights"),
    "vlnbert.data.data": ("Data", "open_data"),
    "vlnbert.data.spec": ("FeatureSpec",),
    "vlnbert.environment.environment": ("Environment",),
    "vlnbert.errors": ("DataError", "UsageError", "VlnbertError"),
    "vlnbert.learning.experiment": ("Experiment", "TrainConfig"),
    "vlnbert.learning.presets": ("presets",),
    "vlnbert.learning.trainer": ("Callback",),
    "vlnbert.navigator": ("Navigator", "NavigatorConfig"),
    "vlnbert.rollout.agents": ("Agent", "register_agent"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Agent",
    "Callback",
    "Data",
    "DataError",
    "Environment",
    "Evaluations",
    "Experiment",
    "FeatureSpec",
    "Navigator",
    "NavigatorConfig",
    "Run",
    "TrainConfig",
    "UsageError",
    "VlnbertError",
    "candidates",
    "caption_features",
    "check_data",
    "check_world",
    "curves",
    "demo",
    "evaluate",
    "export_weights",
    "generate_house",
    "import_weights",
    "inspect_weights",
    "object_features",
    "open_data",
    "open_run",
    "presets",
    "register_agent",
    "report",
    "resume",
    "score",
    "submit",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'vlnbert' has no attribute {name!r}", name=name, obj=import_module(__name__))
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "__version__"])
