"""A navigator's folder, here or on the hub: what is wrong with one is told in a line."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.learning.samples import state_of
from tests.navigator.samples import CONFIGS, ONE, make, sight, words
from vlnbert.errors import DataError, VlnbertError
from vlnbert.learning.navigator_recipe import own_navigator
from vlnbert.learning.run_folder import Progress, load_checkpoint, save_checkpoint, unfilled_navigator
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import Limits, read_safetensors
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.weights.importing import open_navigator


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nwalk\n")
    navigator = make(ONE).float()
    navigator.tokenizer = load_tokenizer(vocabulary)
    navigator.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def refused(source: object, **options: Any) -> str:
    with pytest.raises(VlnbertError) as caught:
        Navigator.from_pretrained(source, **options)
    (line,) = str(caught.value).splitlines()
    return line


def test_places_that_hold_no_navigator(saved: Path, tmp_path: Path) -> None:
    for place in ("/nope", "./nope", "a/b/c", "nope.safetensors"):
        assert refused(place) == f"{place}: no such folder; give a navigator's folder, or its name on the hub"
    assert "is not a folder; give a navigator's folder" in refused(saved / "model.safetensors")
    assert "cannot be read (File name too long)" in refused("/" + "a" * 300)
    (tmp_path / "empty").mkdir()
    expected = f"{tmp_path / 'empty'}: holds no config.json; give a navigator's folder, or its name on the hub"
    assert refused(tmp_path / "empty") == expected
    (saved / "model.safetensors").unlink()
    assert refused(saved) == f"{saved}: holds no model.safetensors; give a navigator's folder, or its name on the hub"


def test_weights_that_go_while_they_are_opened(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch maps the file by its name when safetensors has opened it: a training may have swept it in between."""
    mapped = torch.UntypedStorage.from_file

    def swept(file: str, *options: Any, **named: Any) -> torch.UntypedStorage:
        Path(file).unlink()
        return mapped(file, *options, **named)

    monkeypatch.setattr(torch.UntypedStorage, "from_file", swept)
    with pytest.raises(DataError, match=r"model.safetensors: is gone since it was opened; check the file"):
        read_safetensors(saved / "model.safetensors")


def test_limits_travel_with_a_navigator(saved: Path) -> None:
    """In its config.json; an older one names none, and what is no number in range counts as not said."""
    assert Navigator.from_pretrained(saved).limits == Limits()
    navigator = Navigator.from_pretrained(saved)
    navigator.limits = Limits(max_steps=12, max_tokens=40)
    navigator.save_pretrained(saved)
    for opened in (Navigator.from_pretrained(saved), open_navigator(saved)):
        assert opened.limits == Limits(max_steps=12, max_tokens=40)
        assert opened.config == navigator.config
    (saved / "digests.json").unlink()
    for wrong in (0, -3, True, "12", 2.5, 10**12):
        write_config(max_steps=wrong)(saved)
        assert Navigator.from_pretrained(saved).limits == Limits(max_tokens=40)


def write_config(**change: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    return write


def write_weights(**change: torch.Tensor | None) -> Callable[[Path], None]:
    """Change tensors, or remove those that are None; `__` stands for a dot."""

    def write(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors |= {name.replace("__", "."): tensor for name, tensor in change.items()}
        save_file({name: t for name, t in tensors.items() if t is not None}, folder / "model.safetensors")

    return write


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


def write_tokenizer(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        document = json.loads((folder / "tokenizer.json").read_text())
        change(document)
        (folder / "tokenizer.json").write_text(json.dumps(document))

    return write


def many_pieces(document: dict[str, Any]) -> None:
    document["model"]["vocab"].update({f"word{number}": number for number in range(5, 51)})


DAMAGES: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "a word for a number": (write_config(heads="two"), ("config.json: heads is 'two'", "save the navigator again")),
    "heads that do not share": (write_config(heads=5), ("config.json: 5 heads cannot share a width of 24",)),
    "an unknown word": (write_config(backbone="x"), ("config.json: no backbone 'x'",)),
    "a huge number": (write_config(hidden=10**13), ("hidden is 10000000000000; choose a whole number from 1 to 1,0",)),
    "more than there is": (
        write_config(hidden=24 * 10**4),
        ("backbone.embeddings.words.weight has shape 50 x 24 where",),
    ),
    "a list": (lambda f: (f / "config.json").write_text("[]"), ("config.json: does not describe a navigator",)),
    "a BERT's": (lambda f: (f / "config.json").write_text('{"hidden_size": 3}'), ("make one with: vlnbert weights",)),
    "half a config": (lambda f: (f / "config.json").write_text("{"), ("config.json: line 1 column 2: is not whole",)),
    "cut weights": (cut, ("model.safetensors: is not a whole safetensors file",)),
    "a missing key": (write_weights(critic__0__bias=None), ("config.json: lacks critic.0.bias; save",)),
    "one key too many": (write_weights(critic__9__bias=torch.ones(1)), ("config.json: adds critic.9.bias;",)),
    "all at once": (
        write_weights(critic__0__bias=None, critic__9__bias=torch.ones(1), critic__3__bias=torch.ones(2)),
        ("lacks critic.0.bias", "adds critic.9.bias", "critic.3.bias has shape 2 where 1 is expected"),
    ),
    "more layers than weights": (write_config(layers=4), ("lacks backbone.layers.3.", " and 13 more")),
    "fewer layers than weights": (write_config(layers=2), ("adds backbone.layers.2.", " and 13 more")),
    "whole numbers": (write_weights(critic__3__bias=torch.ones(1).int()), ("critic.3.bias: holds int32, not weights",)),
    "no numbers": (
        write_weights(critic__3__bias=torch.full((1,), torch.nan)),
        ("critic.3.bias: holds NaN or infinity",),
    ),
    "one of them no number": (
        write_weights(critic__0__bias=torch.tensor([torch.nan, *[0.0] * 15])),
        ("critic.0.bias: holds NaN or infinity",),
    ),
    "beyond all numbers": (write_weights(critic__3__bias=torch.full((1,), -torch.inf)), ("holds NaN or infinity",)),
    "pieces beyond the embedding": (
        write_tokenizer(many_pieces),
        ("tokenizer.json: has 51 word pieces, but the weights have embeddings for 50",),
    ),
    "a piece far beyond": (
        write_tokenizer(lambda document: document["model"]["vocab"].update(walk=2**31)),
        ("tokenizer.json: is not a tokenizer that is read here (a piece has the number 2,147,483,648",),
    ),
    "a tokenizer without ends": (
        write_tokenizer(lambda document: document.update(post_processor=None)),
        ("tokenizer.json: does not put [CLS] and [SEP] around a text; use the tokenizer of a BERT",),
    ),
    "a tokenizer without a special": (
        write_tokenizer(lambda document: document["model"]["vocab"].pop("[SEP]")),
        ("tokenizer.json: is not a tokenizer that is read here (the token '[SEP]' at the ends is no piece)",),
    ),
    "half a tokenizer": (
        lambda f: (f / "tokenizer.json").write_text("{"),
        ("tokenizer.json: line 1 column 2: is not whole",),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_fit_together_is_named(saved: Path, damage: str) -> None:
    change, expected = DAMAGES[damage]
    (saved / "digests.json").unlink()
    change(saved)
    line = refused(saved)
    assert line.startswith(f"{saved}/")
    assert all(part in line for part in expected), line
    with pytest.raises(VlnbertError) as caught:
        open_navigator(saved)
    assert len(str(caught.value).splitlines()) == 1


def test_weights_whose_sum_is_beyond_all_numbers_are_weights(saved: Path) -> None:
    (saved / "digests.json").unlink()
    write_weights(critic__0__bias=torch.full((16,), 3e38))(saved)
    assert Navigator.from_pretrained(saved).critic[0].bias[0] == 3e38


def test_a_hub_name_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def refuse(name: str, **_: object) -> str:
        tries.append(name)
        raise ConnectionError("[Errno -2] Name or service not known\nand a long story")

    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", refuse)
    line = refused("org/none")
    assert line.startswith("org/none: no such file or folder, and the hub gave no model of that name (ConnectionError")
    assert "long story" not in line
    assert tries == ["org/none"]


def test_a_hub_name_that_is_not_in_the_cache(tmp_path: Path) -> None:
    line = refused("org/none", local_files_only=True, cache_dir=tmp_path)
    assert "the hub gave no model of that name (LocalEntryNotFoundError" in line


def test_a_hub_name_is_fetched_with_its_options(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict[str, Any]()

    def give(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(saved)

    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", give)
    options = {"revision": "v1", "cache_dir": "x", "token": "t", "local_files_only": True, "force_download": True}
    navigator = Navigator.from_pretrained("org/some", **options)
    assert asked.items() >= {"name": "org/some", **options}.items()
    fetched = {"config.json", "model.safetensors", "tokenizer.json", "vocab.json", "merges.txt", "*.model"}
    assert fetched <= set(asked["allow_patterns"])
    assert navigator.tokenizer is not None
    assert not navigator.training
    (saved / "config.json").unlink()
    assert refused("org/some") == "org/some: holds no config.json; give a navigator's folder, or its name on the hub"


def test_a_hub_name_in_the_cache_needs_no_network(saved: Path, tmp_path: Path) -> None:
    repository = tmp_path / "cache" / "models--org--some"
    shutil.copytree(saved, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    navigator = Navigator.from_pretrained("org/some", cache_dir=tmp_path / "cache", local_files_only=True)
    assert navigator.config == ONE


def as_format_1(folder: Path) -> None:
    """A folder as it was written before formats were named: two modules had other names."""
    (folder / "digests.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("format") == 2
    (folder / "config.json").write_text(json.dumps(config))
    old = {"view_embedding": "views", "object_embedding": "objects"}
    tensors = load_file(folder / "model.safetensors").items()
    renamed = {
        ".".join((old.get(name.split(".")[0], name.split(".")[0]), *name.split(".")[1:])): t for name, t in tensors
    }
    assert {"views.project.weight", "objects.position.weight"} <= set(renamed)
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})


def test_a_folder_of_the_first_format_opens_as_it_was(tmp_path: Path) -> None:
    navigator = make(CONFIGS["two-stream objects"]).float()
    navigator.save_pretrained(tmp_path / "saved")
    as_format_1(tmp_path / "saved")
    for opened in (Navigator.from_pretrained(tmp_path / "saved"), open_navigator(tmp_path / "saved")):
        assert list(opened.state_dict()) == list(navigator.state_dict())
        instructions = [one.encode(*words(3, 8)) for one in (navigator, opened)]
        ours, theirs = (
            one.step(instruction.state, instruction, sight(navigator.config, 3))
            for one, instruction in zip((navigator, opened), instructions, strict=True)
        )
        assert torch.equal(ours.state, theirs.state)
        assert torch.equal(ours.logits, theirs.logits)


def moments_by_number(path: Path, names: Sequence[str]) -> None:
    """A trainer's file as it was written before moments had the names of their parameters."""
    tensors, header = read_safetensors(path)
    renamed = {}
    for name, tensor in tensors.items():
        parameter, _, moment = name.removeprefix("optimiser.").rpartition(".")
        renamed[f"optimiser.{names.index(parameter)}.{moment}"] = tensor
    save_file(renamed, path, header)


def test_a_run_from_before_is_resumed(tmp_path: Path) -> None:
    """Weights are found under their old names, and moments by the numbers of the parameters, whose order stayed."""
    navigator = make(CONFIGS["two-stream objects"]).float()
    state = state_of(navigator)
    for weight in navigator.parameters():
        weight.grad = torch.randn_like(weight)
    state.optimiser.step()
    folder = save_checkpoint(tmp_path, state, progress=Progress(1, None, None))
    as_format_1(folder)
    moments_by_number(folder / "trainer.safetensors", state.names)
    again = unfilled_navigator(folder)
    other = state_of(again)
    assert load_checkpoint(folder, other)[0].iteration == 1
    for one, two in zip(navigator.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
        assert torch.equal(state.optimiser.state[one]["exp_avg"], other.optimiser.state[two]["exp_avg"])


def test_old_names_in_a_new_folder_are_refused(saved: Path) -> None:
    (saved / "digests.json").unlink()
    write_weights(views__norm__bias=torch.ones(24), view_embedding__norm__bias=None)(saved)
    assert "lacks view_embedding.norm.bias; adds views.norm.bias" in refused(saved)


def test_a_folder_of_a_newer_format_is_refused(saved: Path) -> None:
    assert json.loads((saved / "config.json").read_text())["format"] == 2
    (saved / "digests.json").unlink()
    write_config(format=3, colour="green")(saved)
    line = refused(saved)
    assert line.startswith(f"{saved}/config.json: is of format 3, made by a newer vlnbert; this one reads up to 2")
    with pytest.raises(DataError, match="is of format 3"):
        open_navigator(saved)
    with pytest.raises(DataError, match="is of format 3"):  # for a training that starts from it
        own_navigator(saved)
