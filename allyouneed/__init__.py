"""The Transformer of "Attention Is All You Need": train it, run it, measure it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allyouneed.config import ModelConfig as ModelConfig
    from allyouneed.model.transformer import Transformer as Transformer
    from allyouneed.run_file import load_run as load_run
    from allyouneed.training.run import train as train
    from allyouneed.translator import Translation as Translation
    from allyouneed.translator import Translator as Translator

__version__ = "0.1.0"

# Where each name lives; it is imported when first asked for, since torch takes seconds to load.
_HOMES = {
    "ModelConfig": "allyouneed.config",
    "Transformer": "allyouneed.model.transformer",
    "Translation": "allyouneed.translator",
    "Translator": "allyouneed.translator",
    "load_run": "allyouneed.run_file",
    "train": "allyouneed.training.run",
}
__all__ = ["ModelConfig", "Transformer", "Translation", "Translator", "load_run", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'allyouneed' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
