"""The model card that is saved with a navigator."""

TEMPLATE = """---
{{ card_data }}
---

# A Recurrent VLN-BERT navigator

An agent that reads an instruction and walks through a house, by attention alone
([paper](https://arxiv.org/abs/2011.13922)).
{% if preset %}
Trained with the preset `{{ preset }}`.
{% endif %}
{% if scores %}
| split | SR | SPL |
| --- | --- | --- |
{% for split, score in scores.items() -%}
| {{ split }} | {{ "%.2f"|format(100 * score.sr) }} | {{ "%.2f"|format(100 * score.spl) }} |
{% endfor %}{% endif %}
```python
from vlnbert.navigator import Navigator

navigator = Navigator.from_pretrained("{{ repo_id | default('path or hub name') }}")
```
"""
