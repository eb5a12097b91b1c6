"""A program's text, then calls into it -> their results: the side of the wall where the program runs.

No test is here. All in this process, this module included, is in the program's hands; it can answer a call
with any value it likes, and that is all it can do.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from seminar.rewards.wire import decode, encode, receive, send

MESSAGE_CHARS = 1000
"""Of an exception's text, what is passed on."""


def _call(function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    return function(*args, **kwargs)


OPERATIONS: Mapping[str, Callable[..., object]] = {
    "call": _call,
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "contains": operator.contains,
    "eq": operator.eq,
    "iter": iter,
    "next": next,
    "len": len,
    "bool": bool,
    "str": str,
    "repr": repr,
}
"""What the tests may do with an object of the program, by the name that travels."""


def serve(fd: int) -> None:
    """Answer requests until the other end closes.

    A request is {do, args, kwargs}, where `do` is "load" (args: program, names that tests use) or one of
    OPERATIONS. The answer is {value, changed} or {raised: [exception type, text]}; `changed` holds the
    positional arguments that the call altered in place, as [index, content].
    """
    objects: list[object] = []

    def refer(value: object) -> int:
        objects.append(value)
        return len(objects) - 1

    send(fd, "ready")
    while True:
        try:
            request = receive(fd)
        except EOFError:
            return
        try:
            answer = _answer(request, refer, objects.__getitem__)
        except BaseException as error:  # sys.exit() and the like are one more way to fail
            answer = {"raised": [type(error).__name__, str(error)[:MESSAGE_CHARS]]}
        send(fd, answer)


def _answer(
    request: dict[str, Any], refer: Callable[[object], int], resolve: Callable[[int], object]
) -> dict[str, Any]:
    if request["do"] == "load":
        return {"value": encode(_load(*request["args"]), refer), "changed": []}
    args = decode(request["args"], resolve)
    kwargs = {name: decode(value, resolve) for name, value in request["kwargs"].items()}
    value = encode(OPERATIONS[request["do"]](*args, **kwargs), refer)
    changed = []
    for index, (before, arg) in enumerate(zip(request["args"], args, strict=True)):
        if isinstance(arg, (list, dict, set, bytearray)) and (after := encode(arg, refer)) != before:
            changed.append([index, after])
    return {"value": value, "changed": changed}


def _load(program: str, names: list[str]) -> dict[str, object]:
    """Run the program as a module; of the wanted names, those it defines."""
    namespace: dict[str, object] = {"__name__": "solution"}
    exec(compile(program, "solution.py", "exec"), namespace)
    return {name: namespace[name] for name in names if name in namespace}
