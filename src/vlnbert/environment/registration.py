"""Names for Gymnasium, which loads this when it is imported: `gymnasium.make("vlnbert/R2R-v0", data="data")`.

Nothing heavy may be imported here.
"""

import gymnasium

TASKS = {"vlnbert/R2R-v0": "r2r", "vlnbert/REVERIE-v0": "reverie"}


def register() -> None:
    """Register an environment for each task; doing so twice changes nothing."""
    for name, task in TASKS.items():
        if name not in gymnasium.registry:
            entry = "vlnbert.environment.gym:NavigationEnv"
            gymnasium.register(name, entry_point=entry, kwargs={"task": task}, disable_env_checker=True)
