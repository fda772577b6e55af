"""What holds for any walk through any house."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vlnbert.evaluation.metrics import Scores, measure
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.tasks.episodes import pad_paths
from vlnbert.world.build import build_world
from vlnbert.world.world import World

VIEWPOINTS = 12
Walk = list[int]  # a start, then slots to take, both taken modulo what there is
walks = st.lists(st.integers(0, 1000), min_size=1, max_size=9)
pairs = st.lists(st.tuples(walks, walks), min_size=1, max_size=6)


def random_house() -> World:
    generator = np.random.default_rng(7)
    adjacent = generator.random((VIEWPOINTS, VIEWPOINTS)) < 0.15
    ring = np.arange(VIEWPOINTS)
    adjacent[ring, (ring + 1) % VIEWPOINTS] = True
    adjacent |= adjacent.T
    np.fill_diagonal(adjacent, val=False)
    position = generator.random((VIEWPOINTS, 3)) * [12, 9, 3]
    return build_world([ScanGraph("house", tuple(f"v{n}" for n in ring), position, adjacent)])


HOUSE = random_house()


def batch(taken: list[Walk], extra: int = 0) -> tuple[Tensor, Tensor]:
    paths = []
    for start, *slots in taken:
        path = [start % VIEWPOINTS]
        for slot in slots:
            path.append(int(HOUSE.neighbour[path[-1], slot % int(HOUSE.choices[path[-1]])]))
        paths.append(path)
    walked = pad_paths(paths)
    return torch.cat([walked, walked[:, -1:].expand(-1, extra)], dim=1), torch.tensor([len(path) for path in paths])


def scored(pairs: list[tuple[Walk, Walk]], extra_walk: int = 0, extra_reference: int = 0) -> Scores:
    walked, references = [walk for walk, _ in pairs], [reference for _, reference in pairs]
    sighted = torch.zeros(len(pairs), batch(walked, extra_walk)[0].shape[1], dtype=torch.bool)
    seen = batch(walked, extra_walk)[0] % 3 == 0  # any rule that depends on the viewpoint alone
    grounded = batch(references)[0][:, 0] % 2 == 0
    return measure(
        HOUSE,
        *batch(walked, extra_walk),
        *batch(references, extra_reference),
        arrived=sighted | seen,
        grounded=grounded,
    )


def assert_same(left: Scores, right: Scores) -> None:
    expected = right.columns()
    for name, column in left.columns().items():
        torch.testing.assert_close(column, expected[name], rtol=0, atol=1e-12, msg=name)


@given(pairs, st.integers(0, 4), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_padding_changes_nothing(pairs: list[tuple[Walk, Walk]], extra_walk: int, extra_reference: int) -> None:
    assert_same(scored(pairs), scored(pairs, extra_walk, extra_reference))


@given(pairs)
@settings(max_examples=60, deadline=None)
def test_a_batch_is_its_rows(pairs: list[tuple[Walk, Walk]]) -> None:
    alone = [scored([pair]) for pair in pairs]
    columns = [row.columns() for row in alone]
    together: Any = {name: torch.cat([one[name] for one in columns]) for name in columns[0]}  # type: ignore[misc]
    assert_same(scored(pairs), Scores(**together))


@given(walks)
@settings(max_examples=60, deadline=None)
def test_the_reference_itself_is_perfect(reference: Walk) -> None:
    scores = measure(HOUSE, *batch([reference]), *batch([reference]), spl_by="reference")
    for name in ("sr", "osr", "ndtw", "sdtw", "cls"):
        assert float(getattr(scores, name)) == pytest.approx(1.0, abs=1e-12), name
    assert float(scores.spl) == pytest.approx(1.0 if float(scores.tl) > 0 else 0.0)


@given(pairs)
@settings(max_examples=60, deadline=None)
def test_bounds(pairs: list[tuple[Walk, Walk]]) -> None:
    scores = scored(pairs)
    assert scores.rgs is not None
    assert scores.rgspl is not None
    assert (scores.spl <= scores.sr).all()
    assert (scores.sr <= scores.osr).all()
    assert (scores.rgspl <= scores.rgs).all()
    assert (scores.sdtw <= scores.ndtw).all()
    assert (scores.oracle_error <= scores.ne).all()
    for column in (scores.cls, scores.ndtw, scores.spl):
        assert ((column >= 0) & (column <= 1)).all()
