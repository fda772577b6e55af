"""What was damaged since it was written is refused in a line that names the file; older folders still open."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.learning.samples import state_of
from tests.navigator.samples import ONE, make
from vlnbert.errors import DataError
from vlnbert.learning.run_folder import Progress, load_checkpoint, save_checkpoint, unfilled_navigator
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage import folder
from vlnbert.navigator.storage.folder import DIGESTS, DigestError, noting, read_digests
from vlnbert.tasks.batches import load_tokenizer
from vlnbert.weights.importing import open_navigator

FILES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def navigator(tmp_path: Path) -> Navigator:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nwalk\n")
    made = make(ONE).float()
    made.tokenizer = load_tokenizer(tmp_path / "vocab.txt")
    return made


@pytest.fixture
def saved(navigator: Navigator, tmp_path: Path) -> Path:
    navigator.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def checkpoint(navigator: Navigator, tmp_path: Path) -> Path:
    state = state_of(navigator)
    for weight in navigator.parameters():
        weight.grad = torch.ones_like(weight)
    state.optimiser.step()
    return save_checkpoint(tmp_path / "run", state, progress=Progress(1, 0.5, 1))


def resume(checkpoint: Path) -> Progress:
    progress, losses, callbacks = load_checkpoint(checkpoint, state_of(unfilled_navigator(checkpoint)))
    assert not len(losses)
    assert not callbacks
    return progress


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 1 << bit
    path.write_bytes(content)


def refused(use: Callable[[Path], object], place: Path) -> str:
    with pytest.raises(DataError) as caught:
        use(place)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize("name", [*FILES, DIGESTS])
@pytest.mark.parametrize("use", [Navigator.from_pretrained, open_navigator], ids=["from_pretrained", "open_navigator"])
def test_a_flipped_bit_is_refused(saved: Path, name: str, use: Callable[[Path], object]) -> None:
    content, draw = (saved / name).read_bytes(), random.Random(5)
    for at in (0, 9, len(content) - 1, *(draw.randrange(len(content)) for _ in range(20))):
        flip(saved / name, at, draw.randrange(8))
        assert refused(use, saved).startswith(f"{saved / name}: ")
        (saved / name).write_bytes(content)
    use(saved)


@pytest.mark.parametrize("name", [*FILES, "trainer.safetensors", DIGESTS])
def test_a_flipped_bit_is_not_resumed(checkpoint: Path, name: str) -> None:
    content, draw = (checkpoint / name).read_bytes(), random.Random(5)
    for at in (9, len(content) - 1, *(draw.randrange(len(content)) for _ in range(20))):
        flip(checkpoint / name, at, draw.randrange(8))
        assert refused(resume, checkpoint).startswith(f"{checkpoint / name}: ")
        (checkpoint / name).write_bytes(content)
    assert resume(checkpoint) == Progress(1, 0.5, 1)


def test_a_file_that_was_changed_on_purpose(saved: Path) -> None:
    """The line says what to do, and then it is read."""
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_steps": 9}))
    line = refused(Navigator.from_pretrained, saved)
    problem = "is not what was written, by its digest"
    remedy = "take a whole copy of the folder or, if you changed it on purpose, delete its digests.json"
    assert line == f"{path}: {problem}; {remedy}"
    (saved / DIGESTS).unlink()
    assert Navigator.from_pretrained(saved).limits.max_steps == 9


def test_weights_of_another_navigator(saved: Path, tmp_path: Path) -> None:
    """They fit in every shape, and are refused all the same; the same ones, written by another program, are not."""
    other = tmp_path / "other"
    torch.manual_seed(3)
    Navigator(ONE).save_pretrained(other)
    weights = {name: tensor.clone() for name, tensor in load_file(saved / "model.safetensors").items()}
    shutil.copy(other / "model.safetensors", saved)
    assert refused(Navigator.from_pretrained, saved).startswith(f"{saved / 'model.safetensors'}: is not what was")
    save_file(dict(reversed(weights.items())), saved / "model.safetensors")
    Navigator.from_pretrained(saved)


def test_a_folder_is_noted_whole_and_again_when_it_is_saved_again(checkpoint: Path, navigator: Navigator) -> None:
    noted = read_digests(checkpoint)
    assert sorted(noted) == sorted([*FILES, "trainer.safetensors"])
    with torch.no_grad():
        next(navigator.parameters()).add_(1)
    navigator.save_pretrained(checkpoint)
    again = read_digests(checkpoint)
    assert {name for name in noted if noted[name] != again[name]} == {"model.safetensors"}
    (checkpoint / DIGESTS).write_text("{")
    navigator.save_pretrained(checkpoint)
    assert sorted(read_digests(checkpoint)) == sorted(FILES)


def test_an_interrupted_writer_leaves_nothing_noted(saved: Path) -> None:
    """Then a file is unchecked, not refused."""
    with pytest.raises(OSError, match="full"), noting(saved, {"config.json": None}):
        raise OSError("full")
    assert read_digests(saved) == {}
    Navigator.from_pretrained(saved)


def test_a_folder_without_digests_opens(saved: Path) -> None:
    (saved / DIGESTS).unlink()
    Navigator.from_pretrained(saved)
    open_navigator(saved)


def test_digests_of_a_newer_format_are_no_damage(saved: Path) -> None:
    document = json.loads((saved / DIGESTS).read_text())
    (saved / DIGESTS).write_text(json.dumps(document | {"format": 2}))
    assert "is of format 2, made by a newer vlnbert" in refused(Navigator.from_pretrained, saved)


def test_tensors_of_any_kind_are_summed(tmp_path: Path) -> None:
    tensors = {
        "half": torch.ones(3, dtype=torch.bfloat16),
        "one": torch.tensor(2.0),
        "none": torch.zeros(0, 4),
        "turned": torch.arange(6.0).view(2, 3).T.requires_grad_(),
    }
    path = tmp_path / "some.safetensors"
    with noting(tmp_path, {path.name: tensors}):
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, {"a": "b"})
    found, metadata = folder.read_safetensors(path)
    folder.check_tensors(path, found, metadata)
    for wrong in ({**found, "one": torch.tensor(3.0)}, {**found, "two": found["one"]}, {"one": found["one"]}):
        with pytest.raises(DigestError):
            folder.check_tensors(path, wrong, metadata)
    with pytest.raises(DigestError):
        folder.check_tensors(path, found, {"a": "c"})


def test_a_tokenizer_that_was_lost_is_told(saved: Path) -> None:
    (saved / "tokenizer.json").unlink()
    with pytest.raises(DigestError, match=r"tokenizer\.json: is missing, though the folder was written with it; "):
        Navigator.from_pretrained(saved)
    (saved / "digests.json").unlink()
    assert Navigator.from_pretrained(saved).tokenizer is None


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_checkpoint_that_lost_a_file_is_not_resumed(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    assert refused(resume, checkpoint).startswith(f"{checkpoint / name}: is missing, though the folder was written")
