"""Features of one's own: banks, tensors and functions, by name or in memory; what does not fit is told in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from vlnbert.features.opening import bank_digest, tensor_bank
from vlnbert.features.spec import IN_MEMORY
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import VIEWS, World


@pytest.fixture
def data(tiny: Any) -> vln.Data:
    return vln.open_data(tiny.root)


def by_view(world: World, width: int = 5) -> Tensor:
    return torch.rand(len(world), VIEWS, width, generator=torch.Generator().manual_seed(0))


class Plain:
    """The least that a bank is."""

    width = 5

    def __init__(self, world: World) -> None:
        self.seen = tensor_bank(world, by_view(world)).look(torch.arange(len(world)))

    def look(self, viewpoint: Tensor) -> Tensor:
        return self.seen[viewpoint]


def seen(data: vln.Data) -> Tensor:
    return data.view_bank.look(torch.arange(len(data.world)))


def test_however_they_are_given(data: vln.Data) -> None:
    """Each choice shows the view that faces it; the stop and padding show nothing."""
    world = data.world
    views, slots = by_view(world), torch.arange(world.slots)
    real = (slots > 0) & (slots < world.choices[:, None])
    expected = torch.where(real[..., None], views[torch.arange(len(world))[:, None], world.view], 0.0)
    everywhere = torch.where(real[..., None], expected, 7.0)
    for given in (views, by_view, everywhere, lambda _: everywhere, Plain(world), Plain, tensor_bank(world, views)):
        other = vln.open_data(data, features=given)
        assert torch.equal(seen(other), expected)
        assert (other.view_bank.width, other.features.views) == (5, IN_MEMORY)
        assert data.features == vln.FeatureSpec()
        assert bank_digest(world, other.view_bank) == bank_digest(world, tensor_bank(world, views))
    assert bank_digest(world, tensor_bank(world, 2 * views)) != bank_digest(world, tensor_bank(world, views))


def test_names_come_before_files(data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    vln.register_features("by-view")(by_view)
    named = vln.open_data(data, features="by-view")
    assert torch.equal(seen(named), seen(vln.open_data(data, features=vln.FeatureSpec(views="by-view"))))
    assert named.features.user_views
    assert vln.open_data(data, features=by_view).features.views == "by-view", "a function that has a name goes by it"
    assert not vln.FeatureSpec(views="captions").user_views
    with pytest.raises(vln.UsageError, match="the name captions is taken; choose another"):
        vln.register_features("captions")
    file = vln.open_data(data, features=data.folder.feature_files()[0])
    assert file.features.reads_view_file
    assert file.view_bank.width != named.view_bank.width


def test_a_look_at_other_devices_and_widths(data: vln.Data) -> None:
    given = vln.open_data(data, features=by_view, device="cpu")
    assert given.in_memory is by_view
    assert vln.open_data(given, device="cpu").in_memory is by_view
    narrow = given.seen_as(vln.FeatureSpec(views=IN_MEMORY, view_width=3))
    with pytest.raises(vln.UsageError, match=r"features are 5 wide, not 3 as requested"):
        _ = narrow.view_bank


class Wrong(Plain):
    def __init__(self, world: World, change: Callable[[Tensor], Any]) -> None:
        super().__init__(world)
        self.change = change

    def look(self, viewpoint: Tensor) -> Any:
        return self.change(super().look(viewpoint))


WRONG: dict[str, tuple[Callable[[World], Any], str]] = {
    "no bank": (lambda world: {"width": 5}, r"are made of dict; give a tensor, or an object with width"),
    "no width": (lambda world: type("Blind", (), {"look": None})(), r"are made of Blind; give a tensor, or an object"),
    "two dimensions": (lambda world: torch.zeros(len(world), 5), r"have the shape \[17, 5\]; in this world they have"),
    "another world": (
        lambda world: torch.zeros(3, 36, 5),
        r"\[3, 36, 5\]; in this world they have \[17, 36, width\] by",
    ),
    "no tensor": (lambda world: Wrong(world, Tensor.tolist), r"show list, not a tensor; fix them"),
    "other slots": (
        lambda world: Wrong(world, lambda x: x[:, 1:]),
        r"show \[17, 3, 5\], not \[viewpoint, slot, width\]",
    ),
    "another width": (lambda world: Wrong(world, lambda x: x[..., 1:]), r"show \[17, 4, 4\], not .* here \[17, 4, 5\]"),
    "whole numbers": (lambda world: Wrong(world, Tensor.long), r"are of int64, not of floating-point numbers"),
    "no numbers": (lambda world: by_view(world) * torch.nan, r"are not finite everywhere; fix them"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_is_told(data: vln.Data, forget_plugins: Callable[[], None], kind: str) -> None:
    make, words = WRONG[kind]
    with pytest.raises(vln.UsageError, match=f"^the features '<in memory>' .*{words}"):
        _ = vln.open_data(data, features=make).view_bank
    vln.register_features("mine")(make)
    with pytest.raises(vln.UsageError, match=f"^the features 'mine' .*{words}") as caught:
        _ = vln.open_data(data, features="mine").view_bank
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_feature_is_refused(data: vln.Data) -> None:
    with pytest.raises(vln.UsageError, match="features are of the type int; give a file, a registered name"):
        vln.open_data(data, features=7)  # type: ignore[arg-type]
    with pytest.raises(
        vln.UsageError, match=r"no features 'my-depth': no file, no channel \(captions, .*\), and nobody"
    ):
        _ = vln.open_data(data, features="my-depth").view_bank
    with pytest.raises(vln.DataError, match=r"depth.hdf5: no such feature file"):
        _ = vln.open_data(data, features="depth.hdf5").view_bank
    with pytest.raises(vln.UsageError, match=r"held in memory; give it again: data=vln.open_data\(DIR, features=...\)"):
        _ = vln.open_data(data, features=IN_MEMORY).view_bank


def test_a_bank_may_move(data: vln.Data) -> None:
    moved = list[torch.device]()

    class Moving(FeatureBank):
        def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> FeatureBank:
            moved.append(torch.device(device))
            return self

    bank = tensor_bank(data.world, by_view(data.world))
    _ = vln.open_data(data, features=Moving(bank.table, bank.row)).view_bank
    assert moved == [torch.device("cpu")]
