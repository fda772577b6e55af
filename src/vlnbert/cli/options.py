"""Option types that several verbs share."""

from pathlib import Path
from typing import Annotated

import tyro

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
DataPath = Annotated[Path, tyro.conf.arg(metavar="DIR")]
