"""Tables of scores, by hand."""

from vlnbert.evaluation.metrics import score_table


def test_a_score_that_one_of_several_has_is_shown() -> None:
    """R2R names no objects: its cell is empty beside REVERIE's; what neither has is left out."""
    r2r = {"sr": 0.5, "spl": 0.25, "rgs": None, "episodes": 1200}
    reverie = {"sr": 0.125, "spl": 0.1, "rgs": 0.0625, "episodes": 8}
    table = score_table("seen", {"r2r": r2r, "reverie": reverie})
    assert list(table.columns) == ["", "SR", "SPL", "RGS", "episodes"]
    assert [list(row) for row in table.rows] == [
        ["r2r", "50.0", "25.0", "-", "1,200"],
        ["reverie", "12.5", "10.0", "6.2", "8"],
    ]
