"""The model card: whose weights these are is told; under which licence is not ours to say."""

from pathlib import Path

import pytest

from tests.navigator.samples import CONFIGS, ONE, TWO
from vlnbert.navigator import Navigator, NavigatorConfig


def card(config: NavigatorConfig, folder: Path, **told: object) -> list[str]:
    Navigator(config).save_pretrained(folder, model_card_kwargs=told)
    return (folder / "README.md").read_text().splitlines()


@pytest.mark.parametrize("name", CONFIGS)
def test_it_shows_the_configuration_and_no_licence(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    lines = card(config, tmp_path)
    table = lines[lines.index("| configuration | |") :]
    layers = "2 + 2 cross" if config.backbone == "two-stream" else "3"
    shown = (("backbone", config.backbone), ("layers", layers), ("width", 24), ("heads", 3), ("feature width", 7))
    assert {f"| {what} | {value} |" for what, value in shown} <= set(table)
    assert f"| object width | {config.object_width or 'sees no objects'} |" in table
    text = "\n".join(lines)
    assert "library_name: vlnbert" in text
    assert "license" not in text
    assert "Imported from" not in text
    assert "Trained with" not in text
    assert "| split |" not in text


def test_it_tells_how_a_navigator_was_trained(tmp_path: Path) -> None:
    lines = card(ONE, tmp_path, preset="demo", scores={"val_unseen": {"sr": 0.5, "spl": 0.25}})
    assert "Trained with the preset `demo`." in lines
    split = lines.index("| split | SR | SPL |")
    assert lines[split - 1 : split + 4 : 2] == ["", "| --- | --- | --- |", ""]
    assert lines[split + 2] == "| val_unseen | 50.00 | 25.00 |"


def test_it_tells_where_weights_are_from(tmp_path: Path) -> None:
    assert "Imported from `owner/agent`, a BERT." in card(TWO, tmp_path / "a", source="owner/agent", family="a BERT")
    assert "Imported from `owner/agent`." in card(TWO, tmp_path / "b", source="owner/agent")
