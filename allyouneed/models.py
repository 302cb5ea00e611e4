"""The models that come with the package, and which of them a text asks for."""

from collections.abc import Callable
from pathlib import Path

from allyouneed.errors import CheckpointError
from allyouneed.manifest import CONFIG, load_manifest
from allyouneed.text.language import recognise

PRETRAINED = Path(__file__).parent / "pretrained"
_FIRST = "en-de"


def shipped_models() -> list[str]:
    """The names that `find_model` knows; the first is taken where none is named."""
    names = (config.parent.name for config in PRETRAINED.glob(f"*/{CONFIG}"))
    return sorted(names, key=lambda name: (name != _FIRST, name))


def find_model(model: str | Path | None = None) -> Path:
    """The folder of a model: `model` itself, or the shipped one of that name."""
    names = shipped_models()
    if model is None and names:
        return PRETRAINED / names[0]
    if model is not None and Path(model).is_dir():
        return Path(model)
    if model in names:
        return PRETRAINED / str(model)
    shipped = f"the shipped models are {', '.join(names)}" if names else "no model is shipped"
    raise CheckpointError(f"{model or 'no model was named'}: not a model folder; {shipped}")


def choose_model(source: str | None, target: str | None, text: Callable[[], str]) -> Path:
    """The shipped model that translates from and to these languages, as far as they are given.

    Where models from several languages fit, that of `text` is recognised. Of several models
    between the same languages the general one has their plain name, as in en-de.
    """
    manifests = {name: load_manifest(PRETRAINED / name) for name in shipped_models()}
    languages = {
        name: (manifest.source_language, manifest.target_language)
        for name, manifest in manifests.items()
    }
    fitting = {
        name: (its_source, its_target)
        for name, (its_source, its_target) in languages.items()
        if source in (None, its_source) and target in (None, its_target)
    }
    if not fitting:
        shipped = ", ".join(f"{name} ({its} to {to})" for name, (its, to) in languages.items())
        raise CheckpointError(
            f"no shipped model translates {source or 'anything'} to {target or 'anything'}; there "
            f"is {shipped or 'none'}; name the folder of your own with --model"
        )
    sources = {its_source for its_source, _ in fitting.values()}
    if len(sources) > 1:
        source = recognise(text(), sources)[0][0]
        fitting = {name: pair for name, pair in fitting.items() if pair[0] == source}
    return PRETRAINED / min(fitting, key=lambda name: (name != "-".join(fitting[name]), name))
