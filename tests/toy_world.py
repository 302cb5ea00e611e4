"""A toy text, and a run on it that takes a second or two on one core."""

import random
from pathlib import Path

from allyouneed.config import CorpusConfig, DataConfig, ModelConfig, RunConfig, TrainingConfig

WORDS = ["ein", "zwei", "drei", "rot", "grün", "hund", "katze", "haus", "läuft", "sieht", "über"]


def write_toy_text(folder: Path) -> CorpusConfig:
    """Pairs whose target is the source backwards, in capitals."""
    rng = random.Random(0)
    sources = [" ".join(rng.choices(WORDS, k=rng.randint(2, 6))) for _ in range(200)]
    targets = [" ".join(reversed(source.upper().split())) for source in sources]
    (folder / "text.src").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (folder / "text.tgt").write_text("\n".join(targets) + "\n", encoding="utf-8")
    return CorpusConfig(source=str(folder / "text.src"), target=str(folder / "text.tgt"))


def make_toy_run(folder: Path, text: CorpusConfig) -> RunConfig:
    return RunConfig(
        folder=str(folder / "run"),
        model=ModelConfig(vocab_size=400, n_layers=1, d_model=16, d_ff=32, n_heads=2, d_k=8, d_v=8),
        data=DataConfig(corpora=(text,), workers=1),
        training=TrainingConfig(
            steps=12,
            batch_tokens=256,
            row_width=32,
            warmup_steps=10,
            log_every=3,
            save_every=4,
            validate_every=6,
            device="cpu",
        ),
    )
