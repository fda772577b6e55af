"""What a run has read, as digests: a resumed run must find the same."""

from vlnbert.learning.experiment import CAPTIONS, NAMES, OFF, Experiment
from vlnbert.learning.setting import Looks, feature_file, object_feature_file
from vlnbert.perception.sentences import encoder_digest
from vlnbert.sources.boxes import box_files
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import task_and_split
from vlnbert.world.cache import Key


def fingerprints(experiment: Experiment, folder: DataFolder) -> dict[str, str]:
    """A digest of everything that an experiment reads while it learns, by name."""
    looks = Looks.of(experiment)
    files = {"connectivity": list(folder.graphs().values())}
    if folder.vocabulary.exists():
        files[folder.vocabulary.name] = [folder.vocabulary]
    for name in experiment.splits:
        path = folder.split(*task_and_split(name))
        files[str(path.relative_to(folder.root))] = [path]
    if "reverie" in experiment.tasks:
        files["reverie/BBox"] = box_files(folder.boxes)
    if looks.features == CAPTIONS or looks.objects == NAMES:
        files["captions"] = sorted(folder.captions.glob("*.json"))
    if looks.features != CAPTIONS:
        files["features"] = [feature_file(folder, looks.features)]
    if looks.objects not in (NAMES, OFF):
        files["object features"] = [object_feature_file(folder, looks.objects)]
    digests = {name: Key.of(name, paths).digest for name, paths in files.items()}
    if "captions" in files:
        digests["the encoder"] = encoder_digest(experiment.encoder)
    return digests
