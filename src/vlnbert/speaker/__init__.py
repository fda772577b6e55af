"""A speaker: it reads a path and writes an instruction that leads along it. Read model.py first, then decoding.py."""

from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.decoding import Decoding
from vlnbert.speaker.fitting import shown_to_speaker
from vlnbert.speaker.paths import Paths
from vlnbert.speaker.speaker import Speaker
from vlnbert.speaker.telling import Teller, Tellings

__all__ = ["Decoding", "Paths", "Speaker", "SpeakerConfig", "Teller", "Tellings", "shown_to_speaker"]
