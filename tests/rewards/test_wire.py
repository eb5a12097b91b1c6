"""Values and messages between a program and its tests."""

import builtins
import os
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seminar.rewards.wire import FRAME_BYTES, decode, encode, receive, send


def refuse(value: object) -> int:
    raise AssertionError(value)


def there_and_back(value: Any) -> Any:
    return decode(encode(value, refuse), lambda number: number)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**63), 2**63, 10**4000, 1.5, 5e-324, "", "é\ud800\0", b"\xff", bytearray(b"x"),
        [], [[1], (2, ())], {1, 2}, frozenset({1}), {1: "a", (1, 2): [3]}, Counter("aab"), deque([1, 2]),
        OrderedDict(b=1, a=2), range(5, -(10**30), -2), 1 + 2j, complex(0.0, -1.5), Decimal("1.10"),
        Fraction(-1, 3), int, ValueError,
    ],
)  # fmt: skip
def test_plain_values_arrive_as_they_are(value: object) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_infinities_and_what_is_no_number_arrive() -> None:
    back = there_and_back([float("inf"), float("-inf"), float("nan"), -0.0])
    assert list(map(str, back)) == ["inf", "-inf", "nan", "-0.0"]


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (namedtuple("Point", "x y")(1, 2), (1, 2)),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Level.HIGH, 3),
        (np.float64(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
    ],
)
def test_subclasses_and_numpy_scalars_arrive_as_plain_values(value: object, plain: object) -> None:
    back = there_and_back(value)
    assert back == plain
    assert type(back) is type(plain)


@pytest.mark.parametrize("value", [print, object(), np.zeros(2), iter([]), lambda: 1, type("int", (), {})])
def test_other_objects_travel_by_number(value: object) -> None:
    kept: list[object] = []
    assert encode([value], lambda one: kept.append(one) or 7) == [{"object": 7}]  # type: ignore[func-returns-value]
    assert kept[0] is value
    assert decode([{"object": 7}], lambda number: ("number", number)) == [("number", 7)]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["int", "type", "object"]),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["int", "type", "range", "dict", "set"]), inner)
    ),
)


@given(json_values)
def test_a_forged_message_gives_data_or_an_error(message: Any) -> None:
    try:
        value = decode(message, lambda number: number)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return
    assert type(value).__module__ in ("builtins", "collections", "decimal", "fractions")


@pytest.mark.parametrize(
    "name", [name for name in dir(builtins) if not isinstance(getattr(builtins, name), type)]
)
def test_a_message_names_types_and_no_functions(name: str) -> None:
    with pytest.raises(ValueError, match="kind 'type'"):
        decode({"type": name}, lambda number: number)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_messages_keep_their_order(pipe: tuple[int, int]) -> None:
    send(pipe[1], ["é", 1])
    send(pipe[1], {})
    assert [receive(pipe[0]), receive(pipe[0])] == [["é", 1], {}]


def test_a_message_that_announces_too_much_is_refused(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], (FRAME_BYTES + 1).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="the longest allowed is"):
        receive(pipe[0])


def test_a_closed_pipe_is_the_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"\1\0")
    os.close(writer)
    with pytest.raises(EOFError):
        receive(reader)
    os.close(reader)
