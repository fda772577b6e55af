"""Training that never loses work: killed at any moment and resumed, it ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vlnbert.environment.environment import Environment
from vlnbert.learning.checkpoints import last_checkpoint
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.trainer import Split, Trainer, TrainingError
from vlnbert.navigator import SIZES, Navigator
from vlnbert.sources.house import generate
from vlnbert.sources.layout import open_folder
from vlnbert.tasks import load_episodes
from vlnbert.tasks.tokens import load_tokenizer, tokenise
from vlnbert.world import open_features, open_world

CONFIG = TrainConfig(iterations=24, batch=4, rate=1e-3, validate_every=2, limit=5, schedule="cosine", warmup=3)


def trainer(house: Path, run: Path, config: TrainConfig = CONFIG) -> Trainer:
    """A small run, with dropout on, so that the generators count."""
    torch.set_num_threads(1)
    folder = open_folder(house)
    world = open_world(folder)
    bank, tokenizer = open_features(world, folder.feature_files()[0]), load_tokenizer(folder.vocabulary)

    def split(name: str, count: int) -> Split:
        episodes = load_episodes(folder, world, "r2r", name).select(torch.arange(count))
        return Split(episodes, tokenise(episodes, tokenizer, folder.vocabulary))

    torch.manual_seed(config.seed)
    shape = {"hidden": 24, "heads": 2, "inner": 32, "hidden_dropout": 0.1}
    size = replace(SIZES["tiny"]["two-stream"], feature_width=bank.width, vocabulary=270, **shape)
    environment, validation = Environment(world, bank), {"val_unseen": split("val_unseen", 4)}
    return Trainer(run, Navigator(size), environment, split("train", 12), validation, config, best_on="val_unseen")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainer") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    return Navigator.from_pretrained(last_checkpoint(run)).state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_resumed_run_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    trainer(house, tmp_path / "whole").train()
    first = trainer(house, tmp_path / "halves", replace(CONFIG, seed=0))
    first.config = replace(CONFIG, validate_every=2)
    while first.progress.iteration < 9:  # stopped from outside, between validations too
        first.stopping = False
        first.config = replace(first.config, iterations=CONFIG.iterations)
        stop_after(first, 3)
        first.train()
    torch.rand(5)  # whatever happens to the generator in between
    second = trainer(house, tmp_path / "halves")
    second.resume()
    assert second.progress.iteration == first.progress.iteration
    second.train()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))


def stop_after(run: Trainer, updates: int) -> None:
    """Ask a run to stop once it has made some more updates."""

    class Stopper:
        left = updates

        def updated(self, *_: object) -> None:
            self.left -= 1
            run.stopping = self.left <= 0

        def validated(self, *_: object) -> None: ...

    run.callbacks = [Stopper()]


@pytest.mark.slow
def test_twenty_kills_lose_nothing(house: Path, tmp_path: Path) -> None:
    trainer(house, tmp_path / "whole").train()
    run, rng = tmp_path / "killed", random.Random(0)
    code = (
        "import sys; sys.path.insert(0, sys.argv[3]); from pathlib import Path\n"
        "from tests.learning.test_trainer import trainer\n"
        "one = trainer(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "(one.run / 'last.json').exists() and one.resume()\n"
        "print('ready', flush=True); one.train()"
    )
    command = [sys.executable, "-c", code, str(house), str(run), str(Path(__file__).parents[2])]
    kills = 0
    while kills < 20:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.25))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        finished = process.wait() == 0
        process.stdout.close()
        if (run / "last.json").exists():
            assert weights(run), "every moment leaves a whole checkpoint"
        if finished:
            break
    last = trainer(house, run)
    last.resume()
    last.train()
    assert same(weights(tmp_path / "whole"), weights(run))


def test_a_loss_that_is_no_number_stops_and_names_its_batch(house: Path, tmp_path: Path) -> None:
    run = trainer(house, tmp_path / "run")
    run.train()
    before = weights(tmp_path / "run")
    broken = trainer(house, tmp_path / "run", replace(CONFIG, iterations=30))
    broken.resume()
    with torch.no_grad():
        broken.navigator.critic[3].bias.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"batch 24 is nan \(instructions \w+"):
        broken.train()
    assert same(before, weights(tmp_path / "run"))


def test_the_best_is_kept(house: Path, tmp_path: Path) -> None:
    run = trainer(house, tmp_path / "run")
    run.train()
    assert run.progress.best_iteration is not None
    assert Navigator.from_pretrained(tmp_path / "run" / "best").config == run.navigator.config


def test_patience_ends_a_run_that_does_not_improve(house: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, rate=0.0, warmup=0, patience=2, iterations=100)
    run = trainer(house, tmp_path / "run", config)
    run.train()
    assert run.progress.iteration == run.progress.best_iteration + 4


def test_the_rate_warms_up_and_falls() -> None:
    config = replace(CONFIG, iterations=100, warmup=10, rate=1.0)
    rates = [config.rate_at(iteration) for iteration in range(100)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert max(rates) == pytest.approx(1.0, rel=0.05)
    assert rates[-1] < 0.02
    assert replace(config, schedule="constant").rate_at(50) == 1.0
