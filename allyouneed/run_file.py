"""One YAML file a run: unknown keys refused, every value has a default, overrides win.

A run file may extend another and say only what differs; what a run saves stands on its own.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from allyouneed.atomic import new_file
from allyouneed.config import PRESETS, RunConfig
from allyouneed.errors import ConfigError

Config = TypeVar("Config")


SETTINGS = "settings.yaml"  # in a run's folder: every value that was in force


def load_run(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run file, and any it extends, and apply `section.key=value` overrides."""
    tree = _read_tree(path)
    for override in overrides:
        _apply_override(tree, override)
    return run_from_tree(tree, str(path))


def save_run(run: RunConfig, path: Path) -> None:
    """Write every value of a run, defaults included, so that it can be read back."""
    # asdict leaves tuples, which YAML would tag as Python objects.
    tree = dataclasses.asdict(run, dict_factory=_plain_dict)
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    with new_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def run_from_tree(tree: dict[str, Any], where: str) -> RunConfig:
    """`tree` is what a run file holds; `model.preset` names the values to start from."""
    model = tree.get("model")
    if isinstance(model, dict) and "preset" in model:
        name = model["preset"]
        if name not in list(PRESETS):  # a list, since YAML may hold what cannot be hashed
            raise ConfigError(f"{where}: model.preset is {name!r}; there are {', '.join(PRESETS)}")
        values = {key: value for key, value in model.items() if key != "preset"}
        tree = {**tree, "model": {**dataclasses.asdict(PRESETS[name]), **values}}
    return from_tree(RunConfig, tree, where)


def from_tree(cls: type[Config], tree: object, where: str, prefix: str = "") -> Config:
    """Build a dataclass from nested mappings; `where` and `prefix` locate errors."""
    if not isinstance(tree, dict):
        place = prefix.removesuffix(".") or "the file"
        raise ConfigError(f"{where}: {place} must hold keys, found {tree!r:.80}")
    types_of = typing.get_type_hints(cls)
    for key in tree:
        if key not in types_of:
            close = difflib.get_close_matches(str(key), types_of, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(types_of)}"
            raise ConfigError(f"{where}: {prefix}{key} is not a setting; {hint}")
    if missing := [key for key in _required(cls) if key not in tree]:
        raise ConfigError(f"{where}: {prefix}{missing[0]} is missing")
    values = {
        key: _convert(value, types_of[key], where, f"{prefix}{key}") for key, value in tree.items()
    }
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {prefix}{error}") from None


def _required(cls: Any) -> Iterator[str]:
    """The fields of a dataclass that have no default."""
    for field in dataclasses.fields(cls):
        if field.default is field.default_factory is dataclasses.MISSING:
            yield field.name


def _convert(value: object, wanted: Any, where: str, key: str) -> object:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:  # always `X | None` here
        if value is None:
            return None
        return _convert(value, arguments[0], where, key)
    if dataclasses.is_dataclass(wanted):
        return from_tree(typing.cast(type, wanted), value, where, f"{key}.")
    if origin is tuple and isinstance(value, list):
        return tuple(
            _convert(item, arguments[0], where, f"{key}[{number}]")
            for number, item in enumerate(value)
        )
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise ConfigError(f"{where}: {key} is {value!r}; choose from {', '.join(arguments)}")
    if wanted is float and isinstance(value, str):  # YAML 1.1 reads 1e-9 as a string
        try:
            return float(value)
        except ValueError:
            pass
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if (
        origin is None
        and isinstance(value, wanted)
        and (wanted is bool or not isinstance(value, bool))
    ):
        return value
    name = "a list" if origin is tuple else f"of type {wanted.__name__}"
    raise ConfigError(f"{where}: {key} is {value!r}; it must be {name}")


def _read_tree(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a run file holds, laid over what the one that it extends holds."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not readable as a run file: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a run file holds `section: values` lines, found {tree!r:.80}")
    _spell_out_preset(tree)
    base_name = tree.pop("extends", None)
    if base_name is None:
        return tree
    if not base_name or not isinstance(base_name, str):
        raise ConfigError(f"{path}: extends is {base_name!r}; it must be the name of a run file")
    base_path, extended_by = path.parent / base_name, (*extended_by, path.resolve())
    if base_path.resolve() in extended_by:
        raise ConfigError(f"{path}: extends is {base_name}, which extends this file in turn")
    base = _read_tree(base_path, extended_by)
    run_from_tree(base, str(base_path))  # what is wrong there should not be said of `path`
    return _laid_over(base, tree, RunConfig)


def _laid_over(base: Any, own: Any, kind: Any) -> Any:
    """Sections are joined key by key; of anything else, a corpus too, `own` stands alone."""
    is_section = dataclasses.is_dataclass(kind)
    if not (is_section and isinstance(base, dict) and isinstance(own, dict)):
        return own
    kinds = typing.get_type_hints(kind)
    joined = {key: _laid_over(base.get(key), own[key], kinds.get(key)) for key in own}
    return {**base, **joined}


def _spell_out_preset(tree: dict[str, Any]) -> None:
    if isinstance(tree.get("model"), str):
        tree["model"] = {"preset": tree["model"]}


def _apply_override(tree: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"{override!r} is not an override; write section.key=value")
    *sections, key = path.split(".")
    place = tree
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise ConfigError(f"{override!r}: {section} holds one value, not a section")
    try:
        place[key] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{override!r}: {text!r} is not a YAML value") from None
    _spell_out_preset(tree)


def _plain_dict(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in items}
