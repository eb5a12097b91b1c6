"""Plain Python values -> JSON frames on a pipe -> plain Python values. Decoding builds data, it runs no code.

For both sides of the wall between a program (`candidate`) and its tests (`judge`), so the standard library
alone. JSON rather than pickle, because one side is hostile.
"""

import builtins
import json
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

FRAME_BYTES = 16 * 2**20
"""Longest message a reader accepts."""
_PLAIN_INT = 2**63
_SEQUENCES = {kind.__name__: kind for kind in (tuple, set, frozenset, deque)}
_MAPPINGS: dict[str, type] = {kind.__name__: kind for kind in (dict, Counter, OrderedDict)}
_WRITTEN: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": complex,
    "Decimal": Decimal,
    "Fraction": Fraction,
}
_BASES: tuple[Any, ...] = (int, float, str, bytes, list, tuple, set, frozenset, dict)


def encode(value: Any, refer: Callable[[object], int]) -> Any:
    """The value as JSON: scalars and lists as they are, every other kind as {kind: content}.

    A subclass of a plain type travels as the plain type (a named tuple as a tuple, a numpy float as a float).
    Any other object stays where it is: `refer` gives its number, or raises where it has none.
    """
    kind: type[Any] = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        return value if abs(value) < _PLAIN_INT else {"int": hex(value)}
    if kind is list:
        return [encode(item, refer) for item in value]
    if kind in _SEQUENCES.values():
        return {kind.__name__: [encode(item, refer) for item in value]}
    if kind in _MAPPINGS.values():
        return {kind.__name__: [[encode(key, refer), encode(item, refer)] for key, item in value.items()]}
    if kind in (bytes, bytearray):
        return {kind.__name__: value.hex()}
    if kind in (complex, Decimal, Fraction):
        return {kind.__name__: str(value)}
    if kind is range:
        return {"range": [hex(bound) for bound in (value.start, value.stop, value.step)]}
    if isinstance(value, type) and getattr(builtins, name := value.__name__, None) is value:
        return {"type": name}
    if kind.__module__ == "numpy" and not hasattr(value, "__len__") and hasattr(value, "item"):
        return encode(value.item(), refer)
    for base in _BASES:
        if isinstance(value, base):
            return encode(base(value), refer)
    return {"object": refer(value)}


def decode(data: Any, resolve: Callable[[int], object]) -> Any:
    """The value back from `encode`'s JSON; `resolve` turns a number of `refer` into what stands for it here.

    Raises ValueError, TypeError, KeyError or ArithmeticError for anything `encode` does not write.
    """
    if isinstance(data, list):
        return [decode(item, resolve) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decode(item, resolve) for item in content)
    if kind in _MAPPINGS:
        return _MAPPINGS[kind]({decode(key, resolve): decode(item, resolve) for key, item in content})
    if kind in _WRITTEN:
        return _WRITTEN[kind](content)
    if kind == "range":
        return range(*(int(bound, 16) for bound in content))
    if kind == "type" and isinstance(found := getattr(builtins, content), type):
        return found
    if kind == "object":
        return resolve(content)
    raise ValueError(f"a message holds the kind {kind!r}")


def send(fd: int, message: object) -> None:
    """Write one frame: four bytes of length, then JSON in ASCII."""
    body = json.dumps(message).encode("ascii")
    rest = memoryview(len(body).to_bytes(4, "little") + body)
    while rest:
        rest = rest[os.write(fd, rest) :]


def receive(fd: int) -> Any:
    """Read one frame. Raises EOFError at the end, ValueError for a frame that is too long or no JSON."""
    length = int.from_bytes(_read(fd, 4), "little")
    if length > FRAME_BYTES:
        raise ValueError(f"a message of {length} bytes; the longest allowed is {FRAME_BYTES}")
    return json.loads(_read(fd, length))


def _read(fd: int, size: int) -> bytes:
    """Exactly `size` bytes."""
    pieces = []
    while size:
        piece = os.read(fd, min(size, 2**20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
