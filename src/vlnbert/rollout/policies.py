"""Policies by name, and their folders: made from a configuration and from what they will be shown, saved and opened."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch

from vlnbert.errors import DataError, UnknownNameError, UsageError, VlnbertError
from vlnbert.external import ExternalCall, guarded, is_ours
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import (
    CONFIG,
    FEATURES,
    SAVE_AGAIN,
    TOKENIZER,
    WEIGHTS,
    Limits,
    check_file,
    check_fit,
    find_folder,
    read_shown,
    read_tokenizer,
    require_no_path,
    stored_shapes,
)
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.records import from_plain
from vlnbert.registry import Registry, require_name
from vlnbert.rollout.policy import INPUTS, POLICY, POLICY_FORMAT, SETTINGS, Inputs, Policy, RecurrentPolicy
from vlnbert.sources.files import format_of, read_json
from vlnbert.sources.writing import read_whole

PLACE = "policy.settings"  # of their settings in an experiment
RECURRENT = "recurrent"  # the paper's, which is a navigator's folder
GIVE = "give a policy's folder, as a training writes it"
AnyPolicy = TypeVar("AnyPolicy", bound=type[Policy])


@dataclass(frozen=True)
class PolicyKind:
    """A class of policies and the dataclass of its settings."""

    policy: Callable[[Any, Inputs], Policy]
    settings: type[Any]


POLICIES: Registry[PolicyKind] = Registry("policy")
# Listed like the others; its folder and its settings are a navigator's.
POLICIES.announce(RECURRENT, "vlnbert.rollout.policy", "RecurrentPolicy")


def register_policy(name: str) -> Callable[[AnyPolicy], AnyPolicy]:
    """A decorator that gives a class of policies a name: `vln.train("r2r-open", ..., policy="map-memory")` trains one.

    The class is made with `(config, inputs)`: a dataclass of settings, which the annotation of the first parameter
    names and whose fields all have defaults, and `vln.Inputs`, what the policy will be shown.

    Args:
        name: What an experiment's setting `policy.name` calls it.
    """
    require_name(POLICIES.kind, name)

    def register(policy: AnyPolicy) -> AnyPolicy:
        POLICIES.register(name, PolicyKind(policy, _settings_of(name, policy)), policy.__module__)
        return policy

    return register


def _settings_of(name: str, policy: type) -> type[Any]:
    """The dataclass that the first parameter of a policy's class asks for."""
    if not issubclass(policy, Policy):
        raise UsageError(f"the policy '{name}' is no class of policies; derive it from vln.Policy")
    parameters = [
        parameter
        for parameter in signature(policy).parameters.values()
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
    ]
    if len(parameters) != 2:
        raise UsageError(f"the policy '{name}' takes other arguments; its class is made with (config, inputs)")
    configured_by = get_type_hints(policy.__init__).get(parameters[0].name)
    if not (isinstance(configured_by, type) and is_dataclass(configured_by)):
        problem = f"the policy '{name}' does not say what it is configured by"
        raise UsageError(f"{problem}; annotate the first argument of its __init__ with a dataclass")
    try:
        configured_by()
    except TypeError:
        problem = f"settings of the policy '{name}' lack defaults"
        raise UsageError(f"{problem}; give each field of {configured_by.__name__} one") from None
    return configured_by


def make_policy(name: str, settings: Mapping[str, Any], inputs: Inputs) -> Policy:
    """A new policy of that name, with these settings beside its defaults."""
    kind, whose = POLICIES[name], f"the policy '{name}'"
    with ExternalCall(whose):
        policy = kind.policy(from_plain(kind.settings, settings, PLACE), inputs)
    if "_modules" not in vars(policy):
        raise UsageError(f"the policy '{name}' was not made whole; call super().__init__() in it first")
    if not is_ours(kind.policy):
        for method in ("begin", "step", "value"):
            setattr(policy, method, guarded(whose, getattr(policy, method)))
    policy.name, policy.settings, policy.inputs = name, whole_settings(name, settings), inputs
    policy.tokenizer = inputs.tokenizer
    return policy


def whole_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a policy, with its defaults where nothing else is said."""
    known = [one.name for one in fields(POLICIES[name].settings)]
    if unknown := next((one for one in settings if one not in known), None):
        raise UnknownNameError(f"setting of the policy '{name}' called", unknown, known)
    return asdict(from_plain(POLICIES[name].settings, settings, PLACE))


def open_policy(source: str | Path) -> Policy:
    """A policy from its folder; every weight must fit.

    Args:
        source: The folder that `save_pretrained` wrote, here or on the hub.
    """

    def read(folder: Path) -> Policy:
        policy = unfilled_policy(folder)
        policy.load_state_dict(policy.read_weights(folder))
        return policy.eval()

    return read_whole(find_folder(source, (CONFIG, WEIGHTS), GIVE), read)


def open_weights(folder: Path) -> Policy:
    """The policy in a folder: the paper's, whose folder is a navigator's, or another."""
    return open_policy(folder) if describes_policy(folder) else RecurrentPolicy(Navigator.from_pretrained(folder))


def unfilled_policy(folder: Path) -> Policy:
    """A policy in the shape that a folder describes, its weights yet to be read; held against the header first."""
    path = folder / CONFIG
    check_file(path)
    stored = read_json(path, "configuration")
    if not isinstance(stored, dict) or not isinstance(stored.get(POLICY), str):
        raise DataError(path, "does not describe a policy", GIVE)
    format_of(path, stored, POLICY_FORMAT)
    name = stored[POLICY]
    if name not in POLICIES or name == RECURRENT:
        raise DataError(path, f"names the policy '{name:.60}', which nobody registers here", LOAD_PLUGIN)
    tokenizer = read_tokenizer(folder / TOKENIZER) if (folder / TOKENIZER).exists() else None
    try:
        inputs = replace(from_plain(Inputs, stored.get(INPUTS, {}), INPUTS), tokenizer=tokenizer)
        # No room is made for what does not fit.
        with torch.device("meta"):
            expected = make_policy(name, stored.get(SETTINGS, {}), inputs).shapes()
        check_fit(folder / WEIGHTS, stored_shapes(folder / WEIGHTS), expected, SAVE_AGAIN)
        policy = make_policy(name, stored.get(SETTINGS, {}), inputs)
    except DataError:
        raise
    except VlnbertError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None
    policy.limits = Limits.from_values(stored)
    if FEATURES in stored:
        policy.features = read_shown(path, stored[FEATURES], "policy", SAVE_AGAIN)
        require_no_path(path, policy.features, SAVE_AGAIN)
    return policy


def describes_policy(folder: Path) -> bool:
    """Whether a folder is that of a policy other than the paper's, be it whole or not."""
    try:
        stored = read_json(folder / CONFIG, "configuration")
    except DataError:
        return False
    return isinstance(stored, dict) and POLICY in stored
