"""Published mathematics sets, from the hub or a local file with the same columns -> task sets."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from seminar.tasks.mapping import as_text, assemble, chosen
from seminar.tasks.maths import last_box
from seminar.tasks.rows import Published, Row, local_rows
from seminar.tasks.taskset import TaskSet
from seminar.types import Task

MATH500 = Published(hub="HuggingFaceH4/MATH-500", sizes={"test": 500})
AIME24 = Published(hub="HuggingFaceH4/aime_2024", sizes={"train": 30})
AIME25 = Published(hub="yentinglin/aime_2025", sizes={"train": 30})
AMC23 = Published(hub="knoveleng/AMC-23", sizes={"train": 40})
MINERVA = Published(hub="knoveleng/Minerva-Math", sizes={"train": 272})
GSM8K = Published(hub="openai/gsm8k", config="main", sizes={"test": 1319, "train": 7473})
STILL3 = Published(hub="RUC-AIBOX/STILL-3-Preview-RL-Data", sizes={"train": 29_925})
DEEPSCALER = Published(hub="agentica-org/DeepScaleR-Preview-Dataset", sizes={"train": 40_315})
OPENRS = Published(hub="knoveleng/open-rs", sizes={"train": 7_000})
MATH = {
    subject: Published(hub="EleutherAI/hendrycks_math", config=subject, sizes={"test": test, "train": train})
    for subject, test, train in (
        ("algebra", 1187, 1744),
        ("counting_and_probability", 474, 771),
        ("geometry", 479, 870),
        ("intermediate_algebra", 903, 1295),
        ("number_theory", 540, 869),
        ("prealgebra", 871, 1205),
        ("precalculus", 546, 746),
    )
}


def math500(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """MATH-500 (Lightman et al. 2023): 500 test problems of MATH. The other 4,500 are often trained on."""

    def adapt(row: Row) -> Task:
        return _task(row["unique_id"], row, row["answer"], subject=row["subject"], level=row["level"])

    return assemble(MATH500.rows(path, split=split), adapt, name="math500")


def aime24(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """AIME 2024: 30 problems, answers 0 to 999 without padding. Its solutions hold several boxes: no use."""

    def adapt(row: Row) -> Task:
        return _task(row["id"], {"problem": row["problem"]}, _unpadded(row["answer"]))

    return assemble(AIME24.rows(path, split=split), adapt, name="aime24")


def aime25(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """AIME 2025: 30 problems, answers 0 to 999."""

    def adapt(row: Row) -> Task:
        return _task(row.get("id", row.number), row, _unpadded(row["answer"]))

    return assemble(AIME25.rows(path, split=split), adapt, name="aime25")


def amc23(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """AMC 12 of 2023: 40 problems without their options; some copies hold the answers as floats."""

    def adapt(row: Row) -> Task:
        return _task(row.get("id", row.number), row, row["answer"])

    return assemble(AMC23.rows(path, split=split), adapt, name="amc23")


def minerva(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """Minerva-Math (Lewkowycz et al. 2022): 272 problems of MIT courses; the solution boxes the gold."""

    def adapt(row: Row) -> Task:
        return _task(row.number, row, last_box(row["solution"]))

    return assemble(MINERVA.rows(path, split=split), adapt, name="minerva")


def gsm8k(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """GSM8K (Cobbe et al. 2021): school word problems; the gold stands after `####`, commas go."""

    def adapt(row: Row) -> Task:
        solution, _, gold = row["answer"].partition("####")
        working = re.sub(r"<<.*?>>", "", solution)  # marks of a calculator, not for reading
        return _task(row.number, {"problem": row["question"], "solution": working}, gold.replace(",", ""))

    return assemble(GSM8K.rows(path, split=split), adapt, name="gsm8k")


def math(
    path: str | Path | None = None,
    *,
    split: str | None = None,
    subjects: Collection[str] = (),
    levels: Collection[int] = (),
) -> TaskSet:
    """MATH (Hendrycks et al. 2021) by subject and level; the gold is the last box of the solution.

    It has no calculus: a paper that reports one means precalculus, which keeps its name here.
    """
    wanted = chosen("math.subjects", subjects, MATH)
    grades = chosen("math.levels", levels, range(1, 6)) if levels else None

    def adapt(row: Row) -> Task:
        id = row.get("path") or f"{_subject(row)}/{row.number}"
        return _task(id, row, last_box(row["solution"]), subject=_subject(row), level=_level(row))

    if path is None:
        rows = [row for subject in wanted for row in MATH[subject].rows(None, split=split)]
    else:
        rows = [row for row in local_rows(path, split=split) if _subject(row) in wanted]
    rows = [row for row in rows if grades is None or _level(row) in grades]
    return assemble(rows, adapt, name="math")


def still3(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """STILL-3-Preview-RL-Data (RUC AI Box 2025): 29,925 problems, the training set of MADA-RL."""

    def adapt(row: Row) -> Task:
        return _task(row.number, {"problem": row["question"]}, row["answer"])

    return assemble(STILL3.rows(path, split=split), adapt, name="still3")


def deepscaler(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """DeepScaleR preview (Agentica 2025): 40,315 problems; six of them have no answer."""

    def adapt(row: Row) -> Task:
        return _task(row.number, row, row["answer"])

    return assemble(DEEPSCALER.rows(path, split=split), adapt, name="deepscaler")


def openrs(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """Open-RS (Dang and Ngo 2025): 7,000 problems, graded Easy or Hard."""

    def adapt(row: Row) -> Task:
        return _task(row.number, row, row["answer"], level=row["level"])

    return assemble(OPENRS.rows(path, split=split), adapt, name="openrs")


def _task(id: str | int, row: Mapping[str, Any], gold: Any, **facts: Any) -> Task:
    """A task of a row with `problem` and perhaps a worked `solution`, which is kept for imitation."""
    if solution := as_text(row.get("solution")):
        facts["solution"] = solution
    return Task(id=str(id), question=as_text(row["problem"]), gold=as_text(gold), meta=facts)


def _unpadded(answer: Any) -> str:
    text = as_text(answer)
    return str(int(text)) if text.isdecimal() else text


def _subject(row: Row) -> str:
    return str(row["type"]).lower().replace("&", "and").replace(" ", "_")


def _level(row: Row) -> int | None:
    digits = str(row["level"]).removeprefix("Level ")
    return int(digits) if digits.isdecimal() else None  # two rows of geometry have `Level ?`
