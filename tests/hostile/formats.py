"""Every format that we read: where an honest file lies, how it is damaged, what reads it, and what that can tell."""

from dataclasses import dataclass
from typing import Literal

from tests.hostile import planted, readers
from tests.hostile.mutations import Kind
from tests.hostile.readers import Read

# What a reader can notice: any change at all, damaged bytes (but not that somebody wrote another whole file), or only
# what breaks the rules of the format.
Tells = Literal["any change", "damaged bytes", "broken rules"]


@dataclass(frozen=True)
class Format:
    name: str
    files: str  # by a pattern; the mutation chooses one
    kind: Kind
    read: Read
    tells: Tells = "broken rules"


CHECKPOINT = "run/checkpoints/*"
FORMATS = (
    Format("connectivity", "data/connectivity/*_connectivity.json", "json", readers.world),
    Format("R2R instructions", "data/r2r/R2R_*.json", "json", readers.episodes),
    Format("R4R instructions", "data/r4r/R4R_*.json", "json", readers.episodes),
    Format("REVERIE instructions", "data/reverie/REVERIE_*.json", "json", readers.episodes),
    Format("augmented instructions", "data/r2r/prevalent_aug.json", "json", readers.episodes),
    Format("boxes", "data/reverie/BBox/*.json", "json", readers.boxes),
    Format("captions", "data/captions/*.json", "json", readers.captions),
    Format("observations", "data/observations/*.json", "json", readers.observations),
    Format("word labels", "data/r2r/LAR2R_train.json", "json", readers.word_labels),
    Format("HDF5 features", "data/features/tiny.hdf5", "hdf5", readers.view_features),
    Format("TSV features", "data/features/tiny.tsv", "text", readers.view_features),
    Format("object features", "data/features/objects.hdf5", "hdf5", readers.object_features),
    Format("vocab.txt", "data/vocab.txt", "text", readers.vocabulary),
    Format("tokenizer.json", "undigested/tokenizer.json", "json", readers.navigator),
    Format("Unigram tokenizer.json", "encoders/xlm-roberta/tokenizer.json", "json", readers.tokenizer),
    Format("BPE tokenizer.json", "encoders/roberta/tokenizer.json", "json", readers.tokenizer),
    Format("an encoder's settings", "encoders/*/*.json", "json", readers.encoder),
    Format("an encoder's weights", "encoders/*/model.safetensors", "safetensors", readers.encoder),
    Format("config.json", "undigested/config.json", "json", readers.navigator),
    Format("weights without digest", "undigested/model.safetensors", "safetensors", readers.navigator),
    Format("digests.json", "navigator/digests.json", "json", readers.navigator, "any change"),
    Format("tokenizer.json with digest", "navigator/tokenizer.json", "json", readers.navigator, "any change"),
    Format("config.json with digest", "navigator/config.json", "json", readers.navigator, "any change"),
    Format("model.safetensors", "navigator/model.safetensors", "safetensors", readers.navigator, "any change"),
    Format("a speaker's settings", "undigested-speaker/*.json", "json", readers.speaker),
    Format(
        "a speaker's weights without digest", "undigested-speaker/model.safetensors", "safetensors", readers.speaker
    ),
    Format("a speaker's settings with digest", "speaker/*.json", "json", readers.speaker, "any change"),
    Format("a speaker's weights", "speaker/model.safetensors", "safetensors", readers.speaker, "any change"),
    Format("run.json", "run/run.json", "json", readers.resumed),
    Format("last.json", "run/last.json", "json", readers.resumed, "any change"),
    Format("log.jsonl", "run/log.jsonl", "lines", readers.shown_run),
    Format("trainer.safetensors", f"{CHECKPOINT}/trainer.safetensors", "safetensors", readers.resumed, "any change"),
    Format(
        "trainer.safetensors without digest",
        "old-run/checkpoints/*/trainer.safetensors",
        "safetensors",
        readers.resumed,
    ),
    Format("a run's weights", f"{CHECKPOINT}/model.safetensors", "safetensors", readers.resumed, "any change"),
    Format("a run's config.json", f"{CHECKPOINT}/config.json", "json", readers.resumed, "any change"),
    Format("results", "results/*.json", "json", readers.scored),
    Format("results to submit", "results/listed.json", "json", readers.submitted),
    Format("torch checkpoint", "foreign/agent.pt", "torch", readers.foreign, "damaged bytes"),
    Format("old torch checkpoint", "foreign/old.pt", "bytes", readers.foreign),
    Format("a BERT's weights", "foreign/bert/pytorch_model.bin", "torch", readers.foreign, "damaged bytes"),
    Format("a BERT's config.json", "foreign/bert/config.json", "json", readers.foreign),
    Format("kept.safetensors", "kept/kept.safetensors", "safetensors", readers.exported),
    Format("weights to inspect", "foreign/agent.pt", "torch", readers.inspected),
    Format("cache entry", "cache/*.safetensors", "safetensors", readers.cached, "any change"),
    Format("experiment file", "settings/mine.json", "json", readers.experiment),
    Format("plugin name", "settings/plugin.txt", "name", readers.plugin),
    Format("manifest", "fetching/manifest.json.gz", "json.gz", readers.manifest),
    Format("archive", "fetching/graphs.tar.gz", "tar.gz", readers.archive, "any change"),
    Format("data folder, checked", "data/*/*.json", "json", readers.checked),
)
# Readers with faults, to test what finds faults.
PLANTED = tuple(Format(read.__name__, "data/vocab.txt", "text", read, "any change") for read in planted.READERS)
BY_NAME = {one.name: one for one in (*FORMATS, *PLANTED)}
