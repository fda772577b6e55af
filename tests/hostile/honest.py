"""One honest file of every format that we read, small, in one folder: what the mutators damage.

data/         a data folder in the real formats
results/      result files, one a dialect
navigator/    a navigator's folder; undigested/ is the same without digests
speaker/      a speaker's folder; undigested-speaker/ likewise
run/          a run of two updates
old-run/      the same without digests, as older versions wrote it
encoders/     encoders of text as transformers saves them, with a byte-pair tokenizer and a Unigram
foreign/      checkpoints that torch saved, today's format and the old one, and a BERT's folder
settings/     an experiment's file and a plugin
fetching/     a manifest and the archive of a repository
cache/        entries made of data/
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import torch

import vlnbert as vln
from tests.conftest import TinyData, included
from tests.fetching.published import ARCHIVES, GRAPHS, tiny_manifest
from tests.navigator.encoders import save_encoder
from tests.speaker.conftest import SHAPE
from tests.weights.conftest import HIDDEN, POSITIONS, VOCABULARY, Samples
from tools.make_manifest import write_manifest
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.learning.run_folder import POINTER, last_checkpoint
from vlnbert.navigator.storage.folder import DIGESTS
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.tokens import piece_count

TINY = {"hidden": 16, "heads": 2, "inner": 32, "layers": 2, "cross_layers": 1}
VIEWS = "features/tiny.hdf5"
SPLIT, OBJECTS = "r2r/val_unseen", "reverie/val_unseen"
WALK = {"11_0": ["b3", "b2", "b1", "b0"], "12_0": ["g5", "g4"]}
DIALECTS: dict[str, Any] = {
    "listed": [{"instr_id": name, "trajectory": [[one, 0.5, 0] for one in path]} for name, path in WALK.items()],
    "alone": [{"instr_id": name, "trajectory": path} for name, path in WALK.items()],
    "nested": [{"instr_id": name, "trajectory": [[path[0]], path[1:]]} for name, path in WALK.items()],
    "keyed": {name: [[one] for one in path] for name, path in WALK.items()},
}
LABELS = {
    "10": {
        "id": 10,
        "a3": {"0": {"action": [0, 1]}, "1": {"action": [0], "landmark": [3]}},
        "a4": {"0": {"landmark": [3]}},
    },
    "11": {"id": 11, "b0": {"0": {"action": [0], "landmark": [2, 3, 4]}}},
    "12": {"id": 12, "g4": {"0": {"action": [5]}}},
}
WITH_OBJECTS = [
    {"instr_id": "10_7_0", "trajectory": [["a0", 0, 0], ["a3", 1, 0], ["a4", 1, 0]], "predObjId": 7},
    {"instr_id": "11_8_0", "trajectory": ["b3", "b2"], "pred_objid": "8"},
]


def write_honest(root: Path) -> None:
    """Write everything; the cache and states, too, lie within, while this process lasts."""
    os.environ["VLNBERT_CACHE"], os.environ["VLNBERT_STATE"] = str(root / "cache"), str(root / "state")
    torch.set_num_threads(1)
    data = TinyData(root / "data")
    data.write("r4r/R4R_val_unseen.json", data.read("r2r/R2R_val_unseen.json"))
    data.write("r2r/LAR2R_train.json", LABELS)
    _write_object_features(data.path("features/objects.hdf5"))
    _write_json(root, "results", {**DIALECTS, "objects": WITH_OBJECTS})
    (root / "settings").mkdir()
    (root / "settings" / "plugin.py").write_text("import vlnbert as vln\n")
    (root / "settings" / "plugin.txt").write_text("tests.hostile.meaning")
    _write_json(root, "settings", {"mine": {"preset": "demo", "plugins": ["plugin.py"], "training.batch": 4}})
    _write_run(root)
    _write_speaker(root)
    _write_foreign(root)
    for family in ("roberta", "xlm-roberta"):
        save_encoder(root / "encoders" / family, family)
    (root / "fetching" / "archives").mkdir(parents=True)
    write_manifest(tiny_manifest(root / "fetching" / "archives"), root / "fetching" / "manifest.json.gz")
    (root / "fetching" / "graphs.tar.gz").write_bytes(ARCHIVES[GRAPHS])


def _write_json(root: Path, folder: str, documents: dict[str, Any]) -> None:
    (root / folder).mkdir(exist_ok=True)
    for name, document in documents.items():
        (root / folder / f"{name}.json").write_text(json.dumps(document))


def _write_object_features(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for scan, name in included():
            file[f"{scan}_{name}"] = torch.randn(2, 4, generator=torch.Generator().manual_seed(0)).numpy()
            file[f"{scan}_{name}"].attrs["obj_ids"] = [7, 8]


def _write_run(root: Path) -> None:
    """Two updates with an average, and the best navigator as a folder of its own."""
    changes = {f"navigator.{name}": value for name, value in TINY.items()}
    training = {"iterations": 2, "batch": 2, "max_steps": 3, "report_every": 1, "validate_every": 1, "ema": 0.5}
    run = vln.train(
        "demo",
        root / "data",
        root / "run",
        features=root / "data" / VIEWS,
        bar=False,
        tensorboard=False,
        **{"train_on": ("r2r/train",), "validate_on": (SPLIT,), "best_on": SPLIT},
        **changes,
        **{f"training.{name}": value for name, value in training.items()},
    )
    old = shutil.copytree(run.folder, root / "old-run")
    for path in old.rglob(DIGESTS):
        path.unlink()
    (old / POINTER).write_text(json.dumps({"checkpoint": last_checkpoint(old).name}))
    run.navigator.save_pretrained(root / "navigator")
    _copy_undigested(root / "navigator", root / "undigested")


def _copy_undigested(folder: Path, copy: Path) -> None:
    """As folders of older versions, and of others, have no digests."""
    shutil.copytree(folder, copy)
    (copy / DIGESTS).unlink()


def _write_speaker(root: Path) -> None:
    """With weights that nobody trained, so strong that words differ in probability."""
    data = vln.open_data(root / "data", features=FeatureSpec(views=str(root / "data" / VIEWS), objects=OFF))
    torch.manual_seed(0)
    sizes = {"vocabulary": piece_count(data.tokenizer), "feature_width": data.view_bank.width}
    speaker = Speaker(SpeakerConfig(**SHAPE, **sizes))
    with torch.no_grad():
        for weight in speaker.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    speaker.tokenizer, speaker.features = data.tokenizer, data.features
    speaker.may_write(torch.arange(4, piece_count(data.tokenizer)))
    speaker.save_pretrained(root / "speaker")
    _copy_undigested(root / "speaker", root / "undigested-speaker")


def _write_foreign(root: Path) -> None:
    folder = root / "foreign"
    (folder / "bert").mkdir(parents=True)
    vln.export_weights(root / "navigator", folder / "agent.pt")
    vln.import_weights(folder / "agent.pt", root / "kept", vocabulary=root / "data" / "vocab.txt")
    (root / "kept" / DIGESTS).unlink()
    document = torch.load(folder / "agent.pt", weights_only=True)
    torch.save(document, folder / "old.pt", _use_new_zipfile_serialization=False)
    shape = {"hidden_size": HIDDEN, "num_attention_heads": 2, "num_hidden_layers": 3, "vocab_size": VOCABULARY}
    torch.save(Samples().bert("bert."), folder / "bert" / "pytorch_model.bin")
    (folder / "bert" / "config.json").write_text(json.dumps({**shape, "max_position_embeddings": POSITIONS}))
    (folder / "bert" / "vocab.txt").write_bytes((root / "data" / "vocab.txt").read_bytes())
