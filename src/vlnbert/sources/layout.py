"""Places of files in a data folder: the layout that the public R2R and REVERIE files share."""

from dataclasses import dataclass
from pathlib import Path

from vlnbert.errors import DataError

HDF5 = (".hdf5", ".h5")
ABOUT = ".about.json"  # suffix of the description of an augmented file
MAKE_ONE = "get the open data with: vlnbert data fetch DIR, or make a house with: vlnbert house DIR"


@dataclass(frozen=True)
class DataFolder:
    """The paths of a data folder; nothing is opened here, and only `open_folder` checks that the folder exists."""

    root: Path

    @property
    def connectivity(self) -> Path:
        return self.root / "connectivity"

    @property
    def boxes(self) -> Path:
        return self.root / "reverie" / "BBox"

    @property
    def captions(self) -> Path:
        return self.root / "captions"

    @property
    def observations(self) -> Path:
        return self.root / "observations"

    @property
    def features(self) -> Path:
        return self.root / "features"

    @property
    def plans(self) -> Path:
        return self.root / "plans"

    @property
    def word_labels(self) -> Path:
        return self.root / "r2r" / "LAR2R_train.json"

    @property
    def vocabulary(self) -> Path:
        return self.root / "vocab.txt"

    def graphs(self) -> dict[str, Path]:
        """The connectivity file of every scan, by scan, in alphabetical order."""
        suffix = "_connectivity.json"
        graphs = {path.name.removesuffix(suffix): path for path in sorted(self.connectivity.glob(f"*{suffix}"))}
        if not graphs and any(self.root.resolve().parent.glob(f"connectivity/*{suffix}")):
            raise DataError(self.root, "is a part of a data folder", f"give the whole of it: {self.root.parent}")
        if not graphs:
            raise DataError(self.connectivity, f"holds no <scan>{suffix}", MAKE_ONE)
        return graphs

    def instruction_files(self, task: str) -> dict[str, Path]:
        """The files <task>/<TASK>_<split>.json, by split."""
        prefix = f"{task.upper()}_"
        paths = [path for path in (self.root / task).glob(f"{prefix}*.json") if not path.name.endswith(ABOUT)]
        return {path.stem.removeprefix(prefix): path for path in sorted(paths)}

    def augmented_files(self, task: str) -> dict[str, Path]:
        """The files <task>/<name>_aug.json, by <name>_aug, but for those that `instruction_files` has."""
        files = {path.stem: path for path in sorted((self.root / task).glob("*_aug.json"))}
        return {split: path for split, path in files.items() if not split.startswith(f"{task.upper()}_")}

    def feature_files(self) -> list[Path]:
        """Image feature files that lie in `features/`."""
        paths = {path for path in self.features.glob("*") if path.suffix in {*HDF5, ".tsv"}}
        return sorted(paths.difference(self.object_feature_files()))

    def object_feature_files(self) -> list[Path]:
        """Features of objects lie there too; their names begin with obj, as those of the published ones do."""
        return sorted(path for path in self.features.glob("obj*") if path.suffix in HDF5)


def open_folder(root: Path | str) -> DataFolder:
    """The data folder at `root`, once it is known to be a folder."""
    root = Path(root)
    if not root.is_dir():
        raise DataError(root, "is a file, not a data folder" if root.exists() else "no such data folder", MAKE_ONE)
    return DataFolder(root)
