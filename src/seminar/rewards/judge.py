"""Tests and a line to a program -> one word on whether it passes: the side of the wall where tests run."""

import builtins
import random
from collections.abc import Callable
from typing import Any, NoReturn

from seminar.rewards.wire import decode, encode, receive, send


class Stopped(BaseException):
    """The tests cannot go on; a BaseException, so that no test swallows it by `except Exception`."""


class ProgramError(Exception):
    """An exception of a kind that only the program knows."""


class Remote:
    """An object that lives with the program: to be called, read, iterated, printed, passed back.

    It equals another such object where the program says so, and never a value of the tests: an object that
    claims to equal everything gains nothing by it.
    """

    __slots__ = ("__ask", "__number")

    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        """`ask(operation, self, *args)` puts a question to the program; `number` is the object's there."""
        object.__setattr__(self, "_Remote__ask", ask)
        object.__setattr__(self, "_Remote__number", number)

    @staticmethod
    def number(value: object) -> int:
        """The number of a remote object. Raises Stopped for any other: objects of the tests cannot travel."""
        if not isinstance(value, Remote):
            raise Stopped("unusable_gold")
        return int(object.__getattribute__(value, "_Remote__number"))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Call it."""
        return self.__ask("call", self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of it."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__ask("getattr", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of it."""
        self.__ask("setattr", self, name, value)

    def __getitem__(self, key: object) -> Any:
        """Index it."""
        return self.__ask("getitem", self, key)

    def __setitem__(self, key: object, value: object) -> None:
        """Set an item of it."""
        self.__ask("setitem", self, key, value)

    def __contains__(self, item: object) -> bool:
        """Ask whether it holds the item."""
        return bool(self.__ask("contains", self, item))

    def __eq__(self, other: object) -> bool:
        """Compare two of the program's objects by its own rule."""
        return isinstance(other, Remote) and bool(self.__ask("eq", self, other))

    __hash__ = object.__hash__

    def __iter__(self) -> Any:
        """Start an iteration; its steps are asked one by one."""
        return self.__ask("iter", self)

    def __next__(self) -> Any:
        """Take the next item."""
        return self.__ask("next", self)

    def __len__(self) -> int:
        """Its length."""
        return int(self.__ask("len", self))

    def __bool__(self) -> bool:
        """Its truth."""
        return bool(self.__ask("bool", self))

    def __str__(self) -> str:
        """Its text."""
        return str(self.__ask("str", self))

    def __repr__(self) -> str:
        """Its representation."""
        return str(self.__ask("repr", self))


class Line:
    """The line to the program's process. What went wrong on it stays in `fault`, whatever the tests catch."""

    def __init__(self, fd: int) -> None:
        """Wait until the other side is there, which is before it has any program."""
        self._fd = fd
        self.fault: str | None = None
        receive(fd)

    def load(self, program: str, names: list[str]) -> dict[str, Any]:
        """Run the program there; of the names, those it defines. Raises Stopped where it is no Python."""
        try:
            found = self._exchange({"do": "load", "args": [program, names]})
        except SyntaxError:
            self._stop("syntax")
        if not isinstance(found, dict) or not found.keys() <= set(names):
            self._stop("crashed")
        return found

    def ask(self, operation: str, /, *args: object, **kwargs: object) -> Any:
        """Have one operation done there. Arguments that it altered in place are altered here too."""
        try:
            request = {
                "do": operation,
                "args": encode(list(args), Remote.number),
                "kwargs": {name: encode(value, Remote.number) for name, value in kwargs.items()},
            }
        except Stopped as stopped:
            self._stop(str(stopped))
        return self._exchange(request, args)

    def _exchange(self, request: object, args: tuple[object, ...] = ()) -> Any:
        try:
            send(self._fd, request)
            answer = receive(self._fd)
            if "raised" not in answer:
                for index, after in answer["changed"]:
                    _replace(args[index], decode(after, self._remote))
                return decode(answer["value"], self._remote)
            kind, text = map(str, answer["raised"])
        except Exception:  # the line is cut, or the message is not one: no error of the program's own
            self._stop("crashed")
        raise _exception(kind, text)

    def _remote(self, number: int) -> Remote:
        return Remote(self.ask, int(number))

    def _stop(self, fault: str) -> NoReturn:
        self.fault = self.fault or fault
        raise Stopped(fault)


def verdict(line: Line, *, program: str, tests: str, names: list[str]) -> str:
    """`correct`, `wrong`, `syntax` (no Python), `crashed` (the program's process is gone) or `unusable_gold`.

    The tests run here, as a module in which `names` stand for what the program defines under them.
    """
    random.seed(0)  # tests that draw their cases draw the same ones for everybody
    try:
        code = compile(tests, "tests.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "unusable_gold"
    try:
        found = line.load(program, names)
        exec(code, {"__name__": "tests", **found})
    except BaseException:  # whatever stops the tests, they did not pass
        return line.fault or "wrong"
    return line.fault or "correct"


def _exception(kind: str, text: str) -> Exception:
    """The program's exception as the tests may expect it: one of Python's own, or a ProgramError."""
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(text)
        except TypeError:  # a kind that is made from more than a text
            pass
    return ProgramError(f"{kind}: {text}")


def _replace(value: object, after: Any) -> None:
    """Give a mutable value the content of another of its kind."""
    if isinstance(value, (list, bytearray)):
        value[:] = after
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(after)
