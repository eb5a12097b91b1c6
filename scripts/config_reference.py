"""The configuration's models in, docs/config.md out: every key, its type, its default, its line of doc."""

import sys
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from seminar.config import METHODS
from seminar.settings import File, Generated, Named, Section

TARGET = Path(__file__).parents[1] / "docs/config.md"
_HEAD = """# Config reference

Made by `python scripts/config_reference.py` from the models in `settings.py`, `config_mada.py` and
`config_draft.py`; a test keeps it up to date. A recipe is a YAML file that holds what differs from these
defaults; on the command line `key.sub=value` overrides a key. An unknown key is refused and the nearest known
one named.
"paper": the paper states the value. "ours": it does not, and this project chose it.
"""


def reference() -> str:
    """The whole page."""
    blocks = [_HEAD]
    for name, method in METHODS.items():
        blocks.append(f"## `method: {name}`\n\n{_doc(method)}\n")
        blocks += _tables(method, prefix="")
    blocks.append("## Sources of tasks\n\nWhat `data.train` and each entry of `data.evaluation` may be.\n")
    blocks += [
        f"### `type: {_default(s, 'type')}`\n\n{_doc(s)}\n\n{_table(s)}\n" for s in (Generated, Named, File)
    ]
    return "\n".join(blocks)


def _tables(section: type[Section], *, prefix: str) -> list[str]:
    """The table of a section, then those of the sections inside it."""
    title = f"### `{prefix.rstrip('.')}`\n\n{_doc(section)}\n\n" if prefix else ""
    blocks = [f"{title}{_table(section)}\n"]
    for name, field in section.model_fields.items():
        for inner in _sections(field.annotation):
            blocks += _tables(inner, prefix=f"{prefix}{name}.")
    return blocks


def _table(section: type[Section]) -> str:
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for name, field in section.model_fields.items():
        inner = _sections(field.annotation)
        kind = "section" if inner else _type(field)
        default = "" if inner and field.default is not None else _shown(field.default)
        about = " ".join((field.description or "").split())
        lines.append(f"| `{name}` | {kind} | {default} | {about} |".replace("  |", " |"))
    return "\n".join(lines)


def _sections(annotation: Any) -> list[type[Section]]:
    """The section a key holds; sources of tasks have tables of their own."""
    found = [annotation, *get_args(annotation)]
    sections = [a for a in found if isinstance(a, type) and issubclass(a, Section)]
    return [] if Generated in sections or get_origin(annotation) is tuple else sections


def _type(field: Any) -> str:
    bounds = [
        f"{sign} {getattr(rule, name):g}"
        for rule in _metadata(field)
        for name, sign in (("gt", ">"), ("ge", "at least"), ("lt", "<"), ("le", "at most"))
        if getattr(rule, name, None) is not None
    ]
    return ", ".join([_name(field.annotation), *bounds])


def _metadata(field: Any) -> list[Any]:
    """Bounds of the key, and those inside an optional one."""
    inner = [info for arg in get_args(field.annotation) for info in getattr(arg, "__metadata__", ())]
    return [*field.metadata, *(rule for info in inner for rule in getattr(info, "metadata", ()))]


def _name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _name(args[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (tuple, dict):
        parts = [_name(arg) for arg in args if arg is not Ellipsis]
        return (
            f"mapping of {parts[0]} to {parts[1]}"
            if origin is dict
            else f"list of {' and '.join(dict.fromkeys(parts))}"
        )
    if args:
        return " or ".join("null" if arg is NoneType else _name(arg) for arg in args)
    if {Generated, Named, File} & {annotation}:
        return f"`{_default(annotation, 'type')}` source"
    known = {str: "text", int: "whole number", float: "number", bool: "true or false", NoneType: "null"}
    return known.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "null"
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, tuple):
        return "[" + ", ".join(_shown(part) for part in default) + "]"
    if isinstance(default, Section):
        return (
            "{" + ", ".join(f"{name}: {_shown(value)}" for name, value in default.model_dump().items()) + "}"
        )
    return f"{default:g}" if isinstance(default, float) else str(default)


def _default(section: type[Section], name: str) -> str:
    return str(section.model_fields[name].default)


def _doc(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())


def main() -> None:
    """Write the page."""
    TARGET.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"{TARGET} written\n")


if __name__ == "__main__":
    main()
