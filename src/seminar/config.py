"""A YAML recipe and `key=value` overrides -> one frozen, checked configuration tree. Loads no torch.

The keys stand in `settings.py` (every method), `config_mada.py` and `config_draft.py`; recipes hold only what
differs from the defaults.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from seminar.config_draft import DraftRlConfig
from seminar.config_mada import MadaConfig
from seminar.errors import ConfigError
from seminar.settings import Section

Config = MadaConfig | DraftRlConfig
METHODS: dict[str, type[MadaConfig] | type[DraftRlConfig]] = {"mada": MadaConfig, "draft_rl": DraftRlConfig}
"""The value of `method` -> what its recipes hold; a recipe without `method` is one of `mada`."""

_BOUNDS = {
    "greater_than_equal": ("ge", "at least {} is allowed. Raise it"),
    "greater_than": ("gt", "above {} is allowed. Raise it"),
    "less_than_equal": ("le", "at most {} is allowed. Lower it"),
    "less_than": ("lt", "below {} is allowed. Lower it"),
}
"""A fault of a number -> where its limit stands, and what to do."""


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe and apply `key.sub=value` overrides (values are YAML); any fault is one ConfigError."""
    try:
        tree = yaml.safe_load(Path(path).read_bytes()) or {}
    except OSError as error:
        raise ConfigError(
            f"recipe {path}: {error.strerror}. Give the path of a YAML recipe, for instance "
            f"recipes/mada/tiny.yaml."
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"recipe {path} is not YAML: {error}. Correct it.") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"recipe {path} holds a {type(tree).__name__}; it must hold keys and values.")
    for override in overrides:
        apply_override(tree, override)
    return parse(tree, where=str(path))


def parse(tree: dict[str, Any], *, where: str = "config") -> Config:
    """Check a tree of plain values; the first faults are named in one ConfigError."""
    name = tree.get("method", "mada")
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise ConfigError(f"{where}: method is {name!r}; known are {', '.join(METHODS)}. Name one of them.")
    try:
        return method.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_explain(e, method) for e in error.errors()[:3])) from None


def dump(config: Config) -> dict[str, Any]:
    """Plain values of the whole tree, defaults included; `parse` reads them back."""
    return config.model_dump(mode="json")


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one `key.sub=value` in a tree of plain values, in place."""
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r}: it must read key=value, for instance generator.lr=1e-4.")
    *path, last = key.split(".")
    node = tree
    for name in path:
        child = node.get(name)
        if child is None:
            child = node[name] = {}
        if not isinstance(child, dict):
            raise ConfigError(f"override {override!r}: {name} is a value, not a section; give it whole.")
        node = child
    try:
        node[last] = _value(value)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"override {override!r}: the value is not YAML ({error}). Close brackets and quotes."
        ) from error


_LABELS = ("generated", "named", "file")
"""Types of `data.train`: pydantic names them within a place, though no recipe writes data.train.file.path."""


def _value(text: str) -> Any:
    value = yaml.safe_load(text)
    if isinstance(value, str):  # YAML 1.1 reads 1e-4 as text
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _explain(error: Any, method: type[Section]) -> str:
    parts = [str(part) for part in error["loc"]]
    key = ".".join(part for part in parts if part not in _LABELS)
    if error["type"] == "extra_forbidden":
        known = _known(parts[:-1], method)
        near = difflib.get_close_matches(parts[-1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return f"{key} is not a known key; {hint}"
    if error["type"] == "missing":
        return f"{key} is missing and has no default; add it to the recipe"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in _BOUNDS:
        limit, advice = _BOUNDS[error["type"]]
        message = advice.format(error["ctx"][limit])
    met = error.get("input")
    shown = "" if isinstance(met, dict | BaseModel) or error["type"] == "value_error" else f" is {met!r}"
    said = f"{message[0].lower()}{message[1:]}"
    return f"{key}{shown}: {said}" if key else said


def _known(parts: Sequence[str], method: type[Section]) -> list[str]:
    """Field names of the section at `parts`; labels of union members and indices are stepped through."""
    models: list[Any] = [method]
    for part in parts:
        found = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        if found:
            models = [m for annotation in found for m in _sections(annotation)]
        else:
            models = [
                m for m in models if m.model_fields.get("type") and m.model_fields["type"].default == part
            ] or models
    return sorted({name for m in models for name in m.model_fields})


def _sections(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [m for arg in getattr(annotation, "__args__", ()) for m in _sections(arg)]
