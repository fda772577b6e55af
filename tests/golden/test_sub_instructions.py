"""The parts into which real labels cut the real train instructions."""

import json

from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.sub_instructions import cut_train_instructions
from vlnbert.world.world import World


def test_counts(open_data: DataFolder, open_data_world: World) -> None:
    """84 more would lead along paths of val_seen."""
    found = cut_train_instructions(open_data, open_data_world)
    assert (len(found), found.count("beginning"), found.count("end")) == (38_341, 18_150, 20_191)
    assert (found.instructions, found.cut) == (14_039, 12_161)
    assert found.left_out == {"labels of words beyond the text": 27, "parts along paths of val_seen": 84}
    names = {item["path_id"]: item["scan"] for item in found.items(open_data_world)}
    assert len(names) == len(found)
    train = json.loads((open_data.root / "r2r/R2R_train.json").read_text())
    assert {(name.split("_")[0], scan) for name, scan in names.items()} <= {
        (str(item["path_id"]), item["scan"]) for item in train
    }
