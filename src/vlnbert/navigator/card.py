"""The model card that is saved with a navigator."""

from vlnbert.navigator.config import NavigatorConfig

TEMPLATE = """---
{{ card_data }}
---

# A Recurrent VLN-BERT navigator

An agent that reads an instruction and walks through a house, by attention alone
([paper](https://arxiv.org/abs/2011.13922)).
{% if source %}
Imported from `{{ source }}`{% if family %}, {{ family }}{% endif %}.
{% endif %}{% if preset %}
Trained with the preset `{{ preset }}`.
{% endif %}{% if scores %}
| split | SR | SPL |
| --- | --- | --- |
{% for split, score in scores.items() -%}
| {{ split }} | {{ "%.2f"|format(100 * score.sr) }} | {{ "%.2f"|format(100 * score.spl) }} |
{% endfor %}{% endif %}
| configuration | |
| --- | --- |
{% for name, value in facts.items() -%}
| {{ name }} | {{ value }} |
{% endfor %}
```python
from vlnbert.navigator import Navigator

navigator = Navigator.from_pretrained("{{ repo_id | default('path or hub name') }}")
```
"""


def facts(config: NavigatorConfig) -> dict[str, str]:
    """What a reader of the card wants to know of the configuration."""
    told = {
        "backbone": config.backbone,
        "layers": f"{config.layers} + {config.cross_layers} cross" if config.cross_layers else config.layers,
        "width": config.hidden,
        "heads": config.heads,
        "feed-forward width": config.inner,
        "word pieces": config.vocabulary,
        "feature width": config.feature_width,
        "direction width": config.angle_width,
        "object width": config.object_width or "sees no objects",
        "matching": config.matching,
        "language attention": config.language_attention,
    }
    return {name: str(value) for name, value in told.items()}
