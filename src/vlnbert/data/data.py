"""A data folder as one object: world, environment, splits and features, each opened when it is first used."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from tokenizers import Tokenizer

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.features.objects import ObjectSource, Texts
from vlnbert.features.opening import Features, is_in_memory, open_object_bank, open_view_bank, registered_name
from vlnbert.features.spec import IN_MEMORY, OFF, FeatureSpec, as_spec
from vlnbert.features.views import ViewSource
from vlnbert.progress import say
from vlnbert.runtime import require_device
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import DEV, TRAIN, Split, dev_episodes, dev_split, open_split, read_episodes, task_and_split
from vlnbert.tasks.task import R2R, SUB_INSTRUCTIONS, TASKS
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.world.banks import Bank, memory
from vlnbert.world.build import open_world
from vlnbert.world.objects import ObjectBank, ObjectTable, open_object_table
from vlnbert.world.world import World


class Data:
    """A data folder. `world`, `environment`, `texts`, `split(name)` and the rest are opened once, on its device."""

    def __init__(
        self,
        folder: DataFolder,
        features: FeatureSpec | None = None,
        device: torch.device | str = "cpu",
        in_memory: Features | None = None,
    ) -> None:
        """`in_memory` are the features of views where the spec says that they are held in memory."""
        self.folder, self.features, self.device = folder, features or FeatureSpec(), torch.device(device)
        self.in_memory = in_memory
        self.held_out: tuple[str, ...] = ()  # houses of the train splits that make up the splits dev_unseen

    @cached_property
    def world(self) -> World:
        """Houses as tensors: viewpoints, choices, distances."""
        return open_world(self.folder, device=self.device)

    @cached_property
    def view_bank(self) -> Bank:
        """Features of the views that face the choices."""
        return self._open_views()

    @cached_property
    def panorama_bank(self) -> Bank:
        """Features of all 36 views, for agents that want panoramas: `look` gives [viewpoint, 36, width]."""
        bank = self._open_views(panorama=True)
        size = f"{memory(bank) / 1e6:,.0f} MB"
        say(f"panoramas of {len(self.world):,} viewpoints, {bank.width} numbers a view: {size} on {self.device}")
        return bank

    def _open_views(self, panorama: bool = False) -> Bank:
        return open_view_bank(ViewSource(self.world, self.folder, self.features, panorama, self.in_memory))

    @cached_property
    def objects(self) -> ObjectTable:
        """All objects of the folder, whether agents see them or not."""
        return open_object_table(self.world, self.folder.boxes)

    @cached_property
    def shown_objects(self) -> ObjectTable:
        """The objects in the order in which agents see them, or would if their features were not off."""
        if self.features.reads_object_file and (self.features.objects or self.folder.object_feature_files()):
            # A file may lack some.
            return self._object_bank[0].object_table
        most = self.features.max_objects
        return self.objects if most is None else self.objects.select(self.objects.largest(most))

    @cached_property
    def texts(self) -> Texts:
        """The words of views and objects, for agents that read: `data.texts.view(viewpoint, view)` and others."""
        return Texts(self.world, self.folder, lambda: self.shown_objects)

    @property
    def object_bank(self) -> ObjectBank | None:
        """Features of the objects; None where agents see none."""
        return None if self.features.objects == OFF else self._object_bank[0]

    @property
    def object_width(self) -> int:
        """The width of an object's feature; 0 where agents see none."""
        return 0 if self.object_bank is None else self.object_bank.width

    @property
    def object_notes(self) -> tuple[str, ...]:
        """Misfits between a file of objects' features and the boxes, a line each."""
        return () if self.features.objects == OFF else self._object_bank[1]

    @cached_property
    def _object_bank(self) -> tuple[ObjectBank, tuple[str, ...]]:
        return open_object_bank(ObjectSource(self.world, self.folder, self.features, objects=self.objects))

    @property
    def sees_objects(self) -> bool:
        """Whether agents see objects: they are not off, and their features are named or a file of them lies here."""
        named = self.features.objects is not None or bool(self.folder.object_feature_files())
        return self.features.objects != OFF and named

    @cached_property
    def environment(self) -> Environment:
        """The world with all that agents see in it."""
        objects = self.object_bank if self.sees_objects else None
        return Environment(self.world, self.view_bank, objects, lambda: self.panorama_bank)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the folder's vocabulary."""
        return load_tokenizer(self.folder.vocabulary)

    @property
    def splits(self) -> dict[str, Path]:
        """The file of every split, by names such as r2r/val_unseen."""
        by_task = {name: dict(task.files(self.folder)) for name, task in TASKS.items()}
        if TRAIN in (r2r := by_task[R2R.name]) and self.folder.word_labels.exists():
            r2r.setdefault(SUB_INSTRUCTIONS, r2r[TRAIN])
        for files in by_task.values() if self.held_out else ():
            files |= {DEV: files[TRAIN]} if TRAIN in files else {}
        return {f"{task}/{split}": path for task, files in by_task.items() for split, path in files.items()}

    def episodes(self, name: str) -> Episodes:
        """The episodes of a split such as r2r/val_unseen, without tokens."""
        task, _ = task_and_split(name)
        if self._is_held_out(name):
            return dev_episodes(self.world, self.episodes(f"{task}/{TRAIN}"), self.held_out)
        objects = self.objects if TASKS[task].sees_objects else None
        return read_episodes(self.folder, self.world, name, objects).to(self.device)

    def split(self, name: str, tokenizer: Tokenizer | None = None, max_tokens: int | None = None) -> Split:
        """A split such as r2r/val_unseen with its instructions as tokens, by default of the folder's own vocabulary.

        In REVERIE it also has the place of each target among the objects that agents see.
        """
        task, _ = task_and_split(name)
        if self._is_held_out(name):
            return dev_split(self.world, self.split(f"{task}/{TRAIN}", tokenizer, max_tokens), self.held_out)
        sees_objects = TASKS[task].sees_objects
        bank = self.object_bank if sees_objects else None
        return open_split(
            self.folder,
            self.world,
            tokenizer or self.tokenizer,
            name,
            max_tokens=max_tokens,
            visible=None if bank is None else bank.object_table,
            objects=self.objects if sees_objects else None,
        )

    def seen_as(self, features: FeatureSpec, device: torch.device | str | None = None) -> "Data":
        """The same folder with other features, or on another device; what is open already is shared where possible."""
        other = Data(self.folder, features, self.device if device is None else device, self.in_memory)
        other.held_out = self.held_out
        for name in ("tokenizer", "world", "objects"):
            if name in self.__dict__ and (name != "world" or other.device == self.device):
                setattr(other, name, getattr(self, name))
        return other

    def seen_by(self, features: Features) -> "Data":
        """The same folder with user-defined features of views: by name where they are registered, else from memory."""
        name = registered_name(features)
        other = self.seen_as(replace(self.features, views=name or IN_MEMORY))
        other.in_memory = None if name else features
        return other

    def _is_held_out(self, name: str) -> bool:
        """Whether a split is made of held-out houses; a dev_unseen without any is an error."""
        task, split = task_and_split(name)
        if split == DEV and not self.held_out and DEV not in TASKS[task].files(self.folder):
            problem = f"{name} is made of houses that a training kept out, and none are known here"
            raise UsageError(f"{problem}; keep some out ({setting('holdout', 6)}), or name a run that did")
        return split == DEV and bool(self.held_out)

    def holding_out(self, houses: Sequence[str]) -> "Data":
        """The same folder with splits dev_unseen, made of the episodes of the train splits in some houses."""
        other = self.seen_as(self.features)
        other.held_out = tuple(houses)
        return other

    def __deepcopy__(self, memo: object) -> "Data":
        """Share what is open: Gymnasium would make a second copy of it for its records."""
        return self

    def __repr__(self) -> str:
        """Name the contents of the folder, without opening any of them."""
        files = [path.name for path in (*self.folder.feature_files(), *self.folder.object_feature_files())]
        texts = [path.name for path in (self.folder.captions, self.folder.observations) if path.is_dir()]
        return f"""Data({str(self.folder.root)!r}, device={str(self.device)!r})
  scans: {len(self.folder.graphs()):,}
  splits: {", ".join(self.splits) or "none"}
  features: {", ".join([*files, *texts]) or "none"}"""


def open_data(
    folder: "Data | str | Path",
    features: FeatureSpec | str | Path | Features | None = None,
    device: str | None = None,
) -> Data:
    """Open a data folder: `data.world`, `data.environment`, `data.split("r2r/val_unseen")`, `data.splits`.

    Args:
        folder: The folder; or data that is open already, to open it with other features or on another device.
        features: Features by which agents see: a `FeatureSpec`; or of views alone: a feature file, channels such as
            "captions,observations", a registered name, or features in memory: a bank (anything with `width` and
            `look(viewpoint)`), a [viewpoint, 36, width] or [viewpoint, slot, width] tensor, or a function that makes
            one of a world.
        device: Where the tensors are, such as cpu or cuda.
    """
    if not isinstance(folder, Data | str | Path):
        raise UsageError(f"the data folder is {folder!r:.60}; give its path, or what vln.open_data gave")
    if device is not None:
        require_device(device)
    opened = folder if isinstance(folder, Data) else Data(open_folder(folder), device=device or "cpu")
    # A folder without graphs is no data folder.
    opened.folder.graphs()
    if features is None and device is None:
        return opened
    if is_in_memory(features):
        return opened.seen_as(opened.features, device).seen_by(features)
    spec = opened.features if features is None else as_spec(features)
    return opened.seen_as(spec, device)
