"""`vlnbert show`: one episode, what an agent did in it and why."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import Flag, OptionalSplit


def show(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN")]],
    episode: Annotated[str, tyro.conf.arg(metavar="ID")],
    split: OptionalSplit = None,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    checkpoint: Literal["best", "last"] = "best",
    seed: int = 0,
    max_steps: int | None = None,
    device: str = "cpu",
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: Flag = False,
) -> None:
    """Show one episode: what was asked, what the agent chose at each step and how sure it was, and what became of it.

    In a terminal, words are shaded by the attention that they got over all steps. Every number is that of vlnbert
    evaluate. An agent that has no probabilities, and a result file, show none.

    Example: vlnbert show runs/r2r-open --episode 12_0

    Example: vlnbert show runs/r2r-open --episode 12_0 --out card.html

    Example: vlnbert show random --episode 12_0 --split r2r/val_unseen --data data

    Example: vlnbert show results.json --episode 12_0 --split r2r/val_unseen --data data

    Args:
        run: A run's folder, a navigator (its folder or a hub name), an agent by name (random, shortest, my.py:MyAgent),
            or a result file, FILE.json.
        episode: The episode's id: the instr_id of result files, such as 12_0.
        split: The split that it is in, such as val_unseen, with its task where that is not the run's, or r2r; of a
            result file always. By default the one that chooses a run's best weights, else r2r/val_unseen.
        data: The data folder; by default the one that a run was trained on.
        checkpoint: Which weights of a run walk: the best, or those of its last checkpoint.
        seed: Of agents that draw lots, such as random.
        max_steps: Steps after which an episode ends; by default as in the training, else the task's: 15 in R2R.
        device: Where the tensors are, such as cpu or cuda.
        out: Write the card to a file instead, by its ending: .html (a page), .svg, .png or .pdf (the floor plan).
        json: Print the record as one JSON object instead of a card.
    """
    from vlnbert.analysis.card import COLOURS, head_lines, require_card_name, shaded_instruction, tables
    from vlnbert.api import episodes
    from vlnbert.cli.options import screen, tell
    from vlnbert.cli.options import show as show_table

    if out is not None:
        require_card_name(out)
    found = episodes.episode(
        run,
        episode,
        data,
        split,
        checkpoint=checkpoint,
        seed=seed,
        max_steps=max_steps,
        device=device,
    )
    if out is not None:
        tell(str(found.write(out)), aside=json)  # one that reads JSON gets nothing else
    if json:
        print(found.to_json())
    elif out is None:
        console, record = screen(), found.record
        title, outcome = head_lines(record)
        console.print(title, style="bold")
        console.print(outcome, style=COLOURS.get(record.verdict, ""))
        console.print()
        console.print(shaded_instruction(record), soft_wrap=not console.is_terminal)
        for table in tables(record):
            console.print()
            show_table(table)
