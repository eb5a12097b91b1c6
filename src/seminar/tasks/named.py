"""A name and options -> the tasks of a published data set (`seminar data list`)."""

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from seminar.errors import ConfigError
from seminar.tasks import named_maths, named_text
from seminar.tasks.mapping import chosen
from seminar.tasks.taskset import TaskSet

NAMED: dict[str, Callable[..., TaskSet]] = {
    function.__name__: function
    for function in (
        named_maths.math500,
        named_maths.aime24,
        named_maths.aime25,
        named_maths.amc23,
        named_maths.minerva,
        named_maths.gsm8k,
        named_maths.math,
        named_maths.still3,
        named_maths.deepscaler,
        named_maths.openrs,
        named_text.humaneval,
        named_text.mbpp,
        named_text.mbpp_sanitized,
        named_text.hotpotqa,
        named_text.mmlu,
        named_text.mmlu_redux,
    )
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
    function = NAMED[chosen("data.name", [name], NAMED)[0]]
    options: dict[str, Any] = {"subjects": subjects, "levels": levels, "shots": shots}
    given = {option: value for option, value in options.items() if value}
    for option in given:
        if option not in inspect.signature(function).parameters:
            having = [other for other, make in NAMED.items() if option in inspect.signature(make).parameters]
            raise ConfigError(
                f"{name} has no {option} to choose; only {', '.join(having)} have. Leave it out."
            )
    return function(path, split=split, **given)
