"""A config and facts in, config.yaml and versions.json of a run folder out, and back."""

import json
import platform
import uuid
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from seminar.errors import RunError

RUN_FOLDER = 1
"""Version of the layout of a run folder; a folder of another version is refused."""

_PACKAGES = ("seminar", "torch", "transformers", "peft", "safetensors", "numpy")


def write_manifest(folder: Path, *, config: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write both files into an empty folder; `facts` join versions.json. Raises OSError."""
    versions = {"run_folder": RUN_FOLDER, "id": uuid.uuid4().hex[:8], **current_versions(), **facts}
    (folder / "config.yaml").write_text(_to_yaml(config), encoding="utf-8")
    (folder / "versions.json").write_bytes(to_json(versions))


def read_versions(path: Path) -> dict[str, Any]:
    """versions.json of a run folder. Raises RunError: not a run folder, or one of another version."""
    try:
        versions = read_json(path / "versions.json")
    except RunError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise RunError(
                f"{path} is not a run folder (no versions.json in it); "
                "give the path of a folder that `seminar train` made."
            ) from error
        raise
    if versions.get("run_folder") != RUN_FOLDER:
        raise RunError(
            f"{path} is a run folder of version {versions.get('run_folder')}; this seminar reads version "
            f"{RUN_FOLDER}. Use the seminar that made it ({versions.get('seminar')}), or start a new run."
        )
    return versions


def read_config(path: Path) -> dict[str, Any]:
    """config.yaml of a run folder. Raises RunError."""
    file = path / "config.yaml"
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{file} cannot be read ({reason}); restore it, or start a new run folder.") from error
    if not isinstance(config, dict):
        raise RunError(f"{file} is not a mapping; restore it, or start a new run folder.")
    return config


def current_versions() -> dict[str, str | None]:
    """Versions of Python, platform and the packages that numbers depend on; None for one that is missing."""
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {"python": platform.python_version(), "platform": platform.platform(), **packages}


def config_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, object, object] | None:
    """(dotted field, old value, new value) of the first field in which two configs differ, or None."""
    return _first_difference(then, yaml.safe_load(_to_yaml(now)), at="")


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object of a run folder. Raises RunError."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}); restore it or its permissions, or start a new run folder."
        ) from error
    if not isinstance(facts, dict):
        raise RunError(f"{path} is not a JSON object; restore it, or start a new run folder.")
    return facts


def to_json(facts: Mapping[str, Any]) -> bytes:
    """A small JSON file for people and programs; floats come back exactly."""
    return (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode()


def _to_yaml(config: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    return text


def _first_difference(then: object, now: object, *, at: str) -> tuple[str, object, object] | None:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in [*then, *(key for key in now if key not in then)]:
            found = _first_difference(then.get(key), now.get(key), at=f"{at}.{key}" if at else str(key))
            if found:
                return found
        return None
    return None if then == now else (at, then, now)
