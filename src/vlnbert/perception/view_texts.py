"""What a data folder says of each view, to be read by people: its caption, what was observed, what was detected."""

from functools import lru_cache
from typing import TypedDict

import torch

from vlnbert.perception.observations import nearest_headings
from vlnbert.progress import quiet
from vlnbert.sources.captions import PanoramaCaptions, read_captions
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.observations import HEADINGS, PanoramaObservations, read_observations
from vlnbert.world.geometry import STEPS, VIEWS

HELD = 8  # scans whose texts are held in memory; each has some tens of megabytes in the open data


class ViewTexts(TypedDict, total=False):
    """The texts of one view; what a folder does not have is left out."""

    captions: str
    observations: str
    detections: list[str]  # labels, the surest first, each once


class TextReader:
    """The texts of a data folder, each scan's files read when one of its views is first asked for."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self._captions, self._observations = lru_cache(HELD)(self._read_captions), lru_cache(HELD)(self._read_observed)

    def of(self, scan: str, viewpoint: str, view: int) -> ViewTexts:
        """What is said of a view; nothing where nobody says anything."""
        found = ViewTexts()
        if panorama := self._captions(scan).get(viewpoint):
            said = panorama.views[view]
            surest = sorted(said.detections, key=lambda one: -one.confidence)
            found["captions"], found["detections"] = said.text, list(dict.fromkeys(one.label for one in surest))
        if observed := self._observations(scan).get(viewpoint):
            found["observations"] = observed.captions[NEAREST[view]][view // STEPS]
        return found

    def _read_captions(self, scan: str) -> dict[str, PanoramaCaptions]:
        path = self.folder.captions / f"{scan}.json"
        with quiet():
            return {one.viewpoint: one for one in read_captions(path)} if path.is_file() else {}

    def _read_observed(self, scan: str) -> dict[str, PanoramaObservations]:
        path = self.folder.observations / f"{scan}.json"
        with quiet():
            return {one.viewpoint: one for one in read_observations(path)} if path.is_file() else {}


def _nearest() -> list[int]:
    """[view] the described heading that is nearest to its own."""
    before, share = nearest_headings(torch.arange(VIEWS) % STEPS * (360 / STEPS))
    return ((before + (share > 0.5).long()) % HEADINGS).tolist()


NEAREST = _nearest()
