"""Which files of which public repositories make the open data, at pinned commits. The manifest is made of this."""

import re
from dataclasses import dataclass

GITHUB = "https://codeload.github.com"  # below it lie archives, as OWNER/NAME/tar.gz/COMMIT
PARTS = {
    "graphs": "navigation graphs of 90 houses",
    "vocabulary": "the words of bert-base-uncased",
    "r2r": "R2R's instructions",
    "landmarks": "which words of R2R's train split name the action and the landmark of each viewpoint",
    "reverie": "REVERIE's instructions, version 1, and the boxes of its objects",
    "captions": "a caption and the detected objects of each of 36 views",
    "observations": "captions along eight headings at three elevations",
}


@dataclass(frozen=True)
class Pick:
    """Files of one folder of a repository, and where they go."""

    part: str
    folder: str  # in the repository
    to: str  # in the data folder; "." is the folder itself
    names: str  # a pattern of whole file names
    rename: str = ""  # the name here, where a single file has another there

    def takes(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder == self.folder and re.fullmatch(self.names, name) is not None


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub, OWNER/NAME, at a commit."""

    name: str
    commit: str
    picks: tuple[Pick, ...]


JSON = r"[^/]+\.json"
REPOSITORIES = (
    Repository(
        "peteanderson80/Matterport3DSimulator",
        "589d091b111333f9e9f9d6cfd021b2eb68435925",
        (Pick("graphs", "connectivity", "connectivity", r"\w+_connectivity\.json|scans\.txt"),),
    ),
    Repository(
        "YicongHong/Fine-Grained-R2R",
        "305ed4cd219d79306bc38650899edc14cfdcfb69",
        (Pick("r2r", "source/R2R-original", "r2r", r"R2R_\w+\.json"),),
    ),
    Repository(
        "YicongHong/Recurrent-VLN-BERT",
        "ad147f464ae81ef0a9eeb29dc0a0cbbcddcb1f3e",
        (
            Pick("r2r", "data", "r2r", r"R2R_val_train_seen\.json"),
            Pick("vocabulary", "data", ".", r"vocab\.txt"),
        ),
    ),
    Repository(
        "cwhao98/DDL",
        "f4cdea29ab6afc84e2c1fce4d8ff2306809a5c13",
        (Pick("landmarks", "LAR2R", "r2r", r"lar2r_train\.json", rename="LAR2R_train.json"),),
    ),
    Repository(
        "YuankaiQi/REVERIE",
        "0fe0955705c4c998729c33f59b1a4e965ab86e27",
        (
            Pick("reverie", "tasks/REVERIE/data", "reverie", r"REVERIE_\w+\.json"),
            Pick("reverie", "tasks/REVERIE/data/BBox", "reverie/BBox", JSON),
        ),
    ),
    Repository(
        "pbw-Berwin/LangNav",
        "f2536e620a05cfba33083b16bc6140eed7213731",
        (Pick("captions", "img_features/r2r_blip_DETR_vis2text", "captions", JSON),),
    ),
    Repository(
        "Malak-Mansour/Language_In_Robotic_Navigation",
        "77146170a8f0e55c43abe63f47f66f70eeafe6dc",
        (Pick("observations", "datasets/R2R/observations_list", "observations", JSON),),
    ),
)
