"""Floor plans of a hand-made house: a ground floor of four viewpoints, stairs of three, an upper floor of four."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from vlnbert.analysis.figures import figure_svg
from vlnbert.analysis.floorplan import draw_episode
from vlnbert.analysis.house_plan import find_floors
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.world.build import build_world
from vlnbert.world.world import World

DOWN, STAIRS, UP = range(4), range(4, 7), range(7, 11)
HEIGHTS = [0.0, 0.1, 0.0, -0.1, 0.7, 1.6, 2.1, 2.8, 2.9, 2.8, 2.8]


@pytest.fixture(scope="module")
def world() -> World:
    """A corridor that climbs: 2 m along x from each viewpoint to the next. A second scan stands beside it."""
    position = np.array([[2.0 * x, 0.0, z] for x, z in enumerate(HEIGHTS)])
    adjacent = np.eye(len(position), k=1, dtype=bool) | np.eye(len(position), k=-1, dtype=bool)
    names = tuple(f"v{number}" for number in range(len(position)))
    other = ScanGraph("other", ("o0", "o1"), np.array([[0.0, 1, 0], [2, 1, 9]]), np.eye(2, dtype=bool)[::-1])
    return build_world([other, ScanGraph("house", names, position, adjacent)])


def viewpoints(world: World, *numbers: int) -> list[int]:
    return [world.find("house", f"v{number}") for number in numbers]


def panels(figure: Figure) -> list[str]:
    return [" ".join(text.get_text() for text in axes.texts if "floor" in text.get_text()) for axes in figure.axes]


def numbers(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts if "floor" not in text.get_text()}


def arrows(axes: Axes) -> list[FancyArrowPatch]:
    return [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]


def test_stairs_join_the_nearer_floor() -> None:
    floors = find_floors(np.array(HEIGHTS))
    assert floors[list(DOWN)].tolist() == [0] * 4
    assert floors[list(UP)].tolist() == [1] * 4
    assert floors[list(STAIRS)].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("heights", "floors"),
    [
        ([5.0], [0]),
        ([0.0, 0.4, 0.8, 1.2, 1.6, 1.9], [0] * 6),  # a slope is one floor
        ([6.0, 6.1, 6.2, 3.0, 3.1, 3.2, 0.0, 0.1, 0.2], [2, 2, 2, 1, 1, 1, 0, 0, 0]),
        ([0.0] * 5 + [3.0] * 2, [0] * 7),  # two viewpoints are a landing
        ([0.0] * 5 + [1.4] * 4, [0] * 9),  # half a storey
    ],
)
def test_floors(heights: list[float], floors: list[int]) -> None:
    assert find_floors(np.array(heights)).tolist() == floors


def test_a_panel_for_each_floor_that_is_touched(world: World) -> None:
    on_one = draw_episode(world, viewpoints(world, 0, 1, 2), viewpoints(world, 0, 1))
    assert panels(on_one) == [""]
    over_both = draw_episode(world, viewpoints(world, 3, 4, 5, 6, 7), viewpoints(world, 0, 1))
    assert panels(over_both) == ["floor 1 of 2", "floor 2 of 2"]
    by_reference = draw_episode(world, viewpoints(world, 0), viewpoints(world, 3, 4, 5, 6, 7))
    assert panels(by_reference) == ["floor 1 of 2", "floor 2 of 2"]


def test_panels_share_a_scale_and_stack_where_the_walk_is_wide(world: World) -> None:
    for walked, stacked in ((range(11), True), (range(4, 6), False)):
        lower, upper = draw_episode(world, viewpoints(world, *walked), None).axes
        assert lower.get_xlim() == upper.get_xlim()
        assert lower.get_ylim() == upper.get_ylim()
        assert (lower.get_position().y1 < upper.get_position().y0) == stacked
        assert (lower.get_position().x1 < upper.get_position().x0) != stacked


def test_equal_aspect_fills_the_panel(world: World) -> None:
    figure = draw_episode(world, viewpoints(world, 0, 1, 2), viewpoints(world, 0, 1))
    axes = figure.axes[0]
    before = axes.get_position(original=True).bounds
    figure.draw_without_rendering()
    assert axes.get_aspect() == 1
    assert axes.get_position().bounds == pytest.approx(before)


def test_a_move_between_floors_is_on_both(world: World) -> None:
    lower, upper = draw_episode(world, viewpoints(world, 3, 4, 5, 6), None).axes
    assert (len(arrows(lower)), len(arrows(upper))) == (2, 2)
    assert (numbers(lower), numbers(upper)) == ({"0", "1", "2"}, {"1", "2", "3"})


def test_steps_are_numbered_and_returns_share_a_number_plate(world: World) -> None:
    axes = draw_episode(world, viewpoints(world, 1, 2, 1, 0, 1, 2, 1), None).axes[0]
    assert numbers(axes) == {"0,2…6", "1,5", "3"}


def test_staying_is_not_a_step(world: World) -> None:
    axes = draw_episode(world, viewpoints(world, 0, 1, 1, 1), None).axes[0]
    assert numbers(axes) == {"0", "1"}
    assert len(arrows(axes)) == 1


@pytest.mark.parametrize(("stop", "verdict"), [(1, "Success: stopped 2.00 m"), (0, "Failure: stopped 4.00 m")])
def test_success_is_less_than_three_metres_from_the_goal(world: World, stop: int, verdict: str) -> None:
    figure = draw_episode(world, viewpoints(world, 3, stop), viewpoints(world, 3, 2))
    assert verdict in [text.get_text().removesuffix(" from the goal") for text in figure.texts]
    assert f'aria-label="Floor plan. {verdict} from the goal."' in figure_svg(figure)
    circles = [patch for patch in figure.axes[0].patches if isinstance(patch, Circle)]
    assert {(circle.center, circle.radius) for circle in circles} == {((4.0, 0.0), 3.0)}


def test_success_goes_by_the_graph_not_by_the_eye() -> None:
    position = np.array([[0.0, 0, 0], [5, 0, 0], [5, 2, 0], [0, 2, 0]])
    adjacent = np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    bent = build_world([ScanGraph("bent", ("a", "b", "c", "d"), position, adjacent)])
    figure = draw_episode(bent, [3], [3, 2, 1, 0])  # 2 m through a wall, 12 m on foot
    assert "Failure: stopped 12.00 m from the goal" in [text.get_text() for text in figure.texts]
    green = [line.get_xydata() for line in figure.axes[0].lines if line.get_markersize() < 3][-1]
    assert np.asarray(green).tolist() == [[0.0, 0.0]]  # the goal alone is within 3 m on foot


def test_one_viewpoint_walked_and_described(world: World) -> None:
    figure = draw_episode(world, viewpoints(world, 2), viewpoints(world, 2))
    assert numbers(figure.axes[0]) == {"0"}
    assert "Success: stopped 0.00 m from the goal" in figure_svg(figure)


@pytest.mark.parametrize("reference", [None, []])
def test_without_a_reference_there_is_no_goal(world: World, reference: list[int] | None) -> None:
    figure = draw_episode(world, viewpoints(world, 0, 1), reference)
    assert not any(isinstance(patch, Circle) for patch in figure.axes[0].patches)
    svg = figure_svg(figure)
    assert "Goal withheld: walked 1 steps" in svg
    assert "reference" not in svg


def test_other_scans_are_not_drawn(world: World) -> None:
    axes = draw_episode(world, viewpoints(world, 0, 1), None).axes[0]
    drawn = np.concatenate([line.get_xydata() for line in axes.lines])
    assert len(drawn) > 0
    assert np.nanmax(np.abs(drawn[:, 1])) == 0.0  # the other scan lies at y = 1


def test_the_same_episode_gives_the_same_bytes(world: World) -> None:
    walks = viewpoints(world, 2, 3, 4, 5, 4), viewpoints(world, 2, 3)
    first, second = (figure_svg(draw_episode(world, *walks, title="an episode")) for _ in range(2))
    assert first == second
    assert first != figure_svg(draw_episode(world, *walks, title="another"))


def test_the_svg_is_well_formed_small_and_undated(world: World) -> None:
    svg = figure_svg(draw_episode(world, viewpoints(world, 3, 4, 5), viewpoints(world, 3, 4)))
    ElementTree.fromstring(svg)
    assert len(svg) < 20_000
    assert "<style" not in svg  # it would govern the whole page
    assert "date" not in svg.lower()
    assert "var(--walked, #" in svg  # the page may recolour it


def test_titles_are_text(world: World) -> None:
    title = r"<script>alert('x')</script> & $\frac{$ 0.123456"
    svg = figure_svg(draw_episode(world, viewpoints(world, 0, 1), None, title))
    texts = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert title in texts
    assert "<script" not in svg
