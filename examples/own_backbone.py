"""A backbone of one's own, in plain torch: python examples/own_backbone.py [OUT]

Or by its name: vlnbert --plugin examples/own_backbone.py train demo --navigator.backbone my-transformer ..."""

import sys
from math import sqrt
from tempfile import mkdtemp

import torch
from torch import Tensor, nn

import vlnbert as vln
from vlnbert.navigator import BackboneOutput, Instruction, Language, VisualTokens, register_backbone


@register_backbone("my-transformer")
class MyTransformer(nn.Module):
    """An encoder reads the words, once an episode; in a decoder state and sights attend to each other and to them."""

    def __init__(self, config: vln.NavigatorConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden, padding_idx=0)
        self.positions = nn.Embedding(config.positions, config.hidden)
        shape = {"nhead": config.heads, "dim_feedforward": config.inner, "dropout": config.hidden_dropout}
        shape |= {"d_model": config.hidden, "activation": "gelu", "batch_first": True, "norm_first": True}
        reader, looker = nn.TransformerEncoderLayer(**shape), nn.TransformerDecoderLayer(**shape)
        norms = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.reader = nn.TransformerEncoder(reader, config.layers, norms[0], enable_nested_tensor=False)
        self.looker = nn.TransformerDecoder(looker, config.layers, norms[1])
        self.query, self.key = nn.Linear(config.hidden, config.hidden), nn.Linear(config.hidden, config.hidden)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """[row, token] -> the first state and the words that every step sees; the mask is true for real tokens."""
        embedded = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        hidden = self.reader(embedded, src_key_padding_mask=~mask)
        return Instruction(hidden[:, 0], Language(hidden[:, 1:], mask[:, 1:], kv_cache=None))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        """One step: the next state, and the scores by which it attends to sights, which decide, and to words."""
        tokens = torch.cat((state[:, None], visual.tokens), dim=1)
        padding = torch.cat((visual.mask.new_zeros(len(state), 1), ~visual.mask), dim=1)
        masks = {"tgt_key_padding_mask": padding, "memory_key_padding_mask": ~language.mask}
        hidden = self.looker(tokens, language.features, **masks)
        state, query = hidden[:, 0], self.query(hidden[:, 0]) / sqrt(hidden.shape[2])
        seen, read = (torch.einsum("rh,rth->rt", query, self.key(one)) for one in (hidden[:, 1:], language.features))
        return BackboneOutput(state, seen, read, language, attention_maps=None)


def train(data: vln.Data, out: str, **changes: object) -> vln.Run:
    """Train it as any other; it is saved, resumed and evaluated by its name."""
    return vln.train("demo", data=data, out=out, backbone="my-transformer", **changes)


if __name__ == "__main__":
    run = train(vln.generate_house(mkdtemp(), seed=0), out=sys.argv[1] if sys.argv[1:] else mkdtemp())
    print(vln.evaluate(run, split="r2r/val_unseen"))
