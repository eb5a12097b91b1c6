"""A name and options -> the tasks of a published data set (`seminar data list`)."""

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from seminar.errors import ConfigError
from seminar.tasks import named_maths as maths
from seminar.tasks import named_text as text
from seminar.tasks.mapping import chosen
from seminar.tasks.rows import Published
from seminar.tasks.taskset import TaskSet
from seminar.types import Domain


class Entry(NamedTuple):
    """A data set that has a name here."""

    load: Callable[..., TaskSet]
    published: tuple[Published, ...]
    """Where it lives; one part a subject where the hub keeps those apart."""
    domain: Domain = "maths"

    @property
    def about(self) -> str:
        """One line on the set."""
        return (self.load.__doc__ or "").partition("\n")[0]

    @property
    def sizes(self) -> dict[str, int]:
        """Split -> rows on the hub; the first split is the default."""
        return {split: sum(part.sizes[split] for part in self.published) for split in self.published[0].sizes}


NAMED = {
    "math500": Entry(maths.math500, (maths.MATH500,)),
    "aime24": Entry(maths.aime24, (maths.AIME24,)),
    "aime25": Entry(maths.aime25, (maths.AIME25,)),
    "amc23": Entry(maths.amc23, (maths.AMC23,)),
    "minerva": Entry(maths.minerva, (maths.MINERVA,)),
    "gsm8k": Entry(maths.gsm8k, (maths.GSM8K,)),
    "math": Entry(maths.math, tuple(maths.MATH.values())),
    "still3": Entry(maths.still3, (maths.STILL3,)),
    "deepscaler": Entry(maths.deepscaler, (maths.DEEPSCALER,)),
    "openrs": Entry(maths.openrs, (maths.OPENRS,)),
    "humaneval": Entry(text.humaneval, (text.HUMANEVAL,), "code"),
    "mbpp": Entry(text.mbpp, (text.MBPP,), "code"),
    "mbpp_sanitized": Entry(text.mbpp_sanitized, (text.MBPP_SANITIZED,), "code"),
    "hotpotqa": Entry(text.hotpotqa, (text.HOTPOTQA,), "qa"),
    "mmlu": Entry(text.mmlu, (text.MMLU,), "choice"),
    "mmlu_redux": Entry(text.mmlu_redux, tuple(text.MMLU_REDUX.values()), "choice"),
}


def load(
    name: str,
    *,
    path: str | Path | None = None,
    split: str | None = None,
    subjects: Collection[str] = (),
    levels: Collection[int] = (),
    shots: int = 0,
) -> TaskSet:
    """The tasks of a named data set, from the hub, where its size is checked, or from the local file `path`.

    `split` None is the set's default. `subjects` (math, mmlu, mmlu_redux), `levels` (math) and `shots` (mmlu)
    choose within a set. Errors: ConfigError for an unknown name or an option that the set does not have,
    DataError for bad data.
    """
    function = entry(name).load
    options: dict[str, Any] = {"subjects": subjects, "levels": levels, "shots": shots}
    given = {option: value for option, value in options.items() if value}
    for option in given:
        if option not in _options(function):
            having = [other for other, entry in NAMED.items() if option in _options(entry.load)]
            raise ConfigError(
                f"{name} has no {option} to choose; only {', '.join(having)} have. Leave it out."
            )
    return function(path, split=split, **given)


def entry(name: str) -> Entry:
    """A named data set. Raises ConfigError: an unknown name."""
    return NAMED[chosen("data.name", [name], NAMED)[0]]


def _options(function: Callable[..., TaskSet]) -> Collection[str]:
    return inspect.signature(function).parameters
