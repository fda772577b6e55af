"""The tables themselves: nothing twice, nothing that a navigator does not have, nothing left out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlnbert.navigator import NavigatorConfig, key_shapes
from vlnbert.weights.tables import BERT, FAMILIES, PUBLISHED, Family, KeyTable, expand_rows, ordered_keys

SMALL = {"hidden": 8, "heads": 2, "inner": 12, "vocabulary": 9, "positions": 7, "feature_width": 5, "angle_width": 4}
CASES = [(family, backbone) for family in FAMILIES for backbone in family.rows]
NAMES = [f"{family.name} {backbone}" for family, backbone in CASES]


def keys(backbone: str, layers: int, cross: int) -> set[str]:
    cross = cross if backbone == "two-stream" else 0
    return set(key_shapes(NavigatorConfig(backbone=backbone, layers=layers, cross_layers=cross, **SMALL)))


@pytest.mark.parametrize(("family", "backbone"), CASES, ids=NAMES)
def test_every_target_is_a_key_of_a_navigator(family: Family, backbone: str) -> None:
    targets = {target for _, _, target in ordered_keys(family.rows[backbone], 2, 2)}
    assert targets <= keys(backbone, 2, 2)


@pytest.mark.parametrize(("family", "backbone"), CASES, ids=NAMES)
def test_no_row_stands_twice(family: Family, backbone: str) -> None:
    pairs = expand_rows(family.rows[backbone])
    assert len(set(pairs)) == len(pairs)
    filled = [target for source, target in pairs if not source.startswith(family.kept)]
    assert len(set(filled)) == len(filled)


@pytest.mark.parametrize("backbone", PUBLISHED)
@settings(max_examples=10)
@given(layers=st.integers(1, 4), cross=st.integers(1, 4))
def test_published_tables_can_be_read_both_ways(backbone: str, layers: int, cross: int) -> None:
    family = PUBLISHED[backbone]
    table, expected = KeyTable(family, backbone), keys(backbone, layers, cross)
    listed = ordered_keys(family.rows[backbone], layers, cross)
    back = {name: target for name, pattern, target in listed if not pattern.startswith(family.kept)}
    assert {target: table.source(target) for target in expected} == {target: name for name, target in back.items()}
    assert len({name for name, _, _ in listed}) == len(listed)


@given(layers=st.integers(1, 30), cross=st.integers(1, 30))
def test_cross_layers_come_from_the_top(layers: int, cross: int) -> None:
    table = KeyTable(BERT, "two-stream", "bert.", top_shift=layers - cross)
    found = table.source(f"backbone.cross_layers.{cross - 1}.cross.norm.bias")
    assert found == f"bert.encoder.layer.{layers - 1}.attention.output.LayerNorm.bias"
    assert table.source(f"backbone.cross_layers.{cross - 1}.feed_forward.outer.weight") == (
        f"bert.encoder.layer.{layers - 1}.output.dense.weight"
    )


def test_a_table_knows_its_keys_and_no_others() -> None:
    table = KeyTable(BERT, "two-stream", "bert.")
    assert table.knows("bert.encoder.layer.11.attention.self.query.weight")
    for name in (
        "encoder.layer.0.attention.self.query.weight",
        "bert.embeddings.word_embeddings.bias",
        "bert.x.weight",
    ):
        assert not table.knows(name)
    assert table.reason_unused("cls.predictions.bias") == "a pre-training head"
    assert table.reason_unused("clsx") is None
