"""Published sets of code, choice and reading, from the hub or a local file of that form -> task sets."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from seminar.errors import ConfigError, DataError
from seminar.tasks.mapping import Dropped, as_letter, as_options, as_source, as_text, assemble, chosen
from seminar.tasks.rows import Published, Row, local_rows
from seminar.tasks.taskset import TaskSet
from seminar.types import Task


def _mbpp_split(row: Row) -> str | None:
    """The split of a task by its number, as the authors cut it (Austin et al. 2021, section 2.1)."""
    ends = {"prompt": 10, "test": 510, "validation": 600, "train": 974}
    number = int(row["task_id"]) if str(row["task_id"]).isdecimal() else math.inf
    return next((split for split, last in ends.items() if number <= last), None)


HUMANEVAL = Published(hub="openai/openai_humaneval", sizes={"test": 164})
MBPP = Published(
    hub="google-research-datasets/mbpp",
    config="full",
    sizes={"test": 500, "train": 374, "validation": 90, "prompt": 10},
    split_of=_mbpp_split,
)
MBPP_SANITIZED = Published(
    hub="google-research-datasets/mbpp",
    config="sanitized",
    sizes={"test": 257, "train": 120, "validation": 43, "prompt": 7},
    split_of=_mbpp_split,
)
MBPP_DEADLINE_S = 10.0
"""The reference solution of task 123 alone takes three seconds."""
HOTPOTQA = Published(
    hub="hotpotqa/hotpot_qa", config="distractor", sizes={"validation": 7405, "train": 90_447}
)
MMLU = Published(
    hub="cais/mmlu",
    config="all",
    sizes={"test": 14_042, "validation": 1531, "dev": 285},
    split_of=lambda row: row.get("split"),
)
MMLU_SUBJECTS = """
    abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology college_chemistry
    college_computer_science college_mathematics college_medicine college_physics computer_security
    conceptual_physics econometrics electrical_engineering elementary_mathematics formal_logic global_facts
    high_school_biology high_school_chemistry high_school_computer_science high_school_european_history
    high_school_geography high_school_government_and_politics high_school_macroeconomics
    high_school_mathematics high_school_microeconomics high_school_physics high_school_psychology
    high_school_statistics high_school_us_history high_school_world_history human_aging human_sexuality
    international_law jurisprudence logical_fallacies machine_learning management marketing medical_genetics
    miscellaneous moral_disputes moral_scenarios nutrition philosophy prehistory professional_accounting
    professional_law professional_medicine professional_psychology public_relations security_studies sociology
    us_foreign_policy virology world_religions
""".split()  # noqa: SIM905 - a list would take 57 lines
MMLU_REDUX = {
    subject: Published(hub="edinburgh-dawg/mmlu-redux-2.0", config=subject, sizes={"test": 100})
    for subject in MMLU_SUBJECTS
}


def humaneval(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """HumanEval (Chen et al. 2021): 164 Python functions to complete from signature and docstring."""

    def adapt(row: Row) -> Task:
        return Task(
            id=row["task_id"],
            question=row["prompt"],
            domain="code",
            tests=as_source(row["test"]),
            meta={"entry_point": row["entry_point"], "solution": row["prompt"] + row["canonical_solution"]},
        )

    return assemble(HUMANEVAL.rows(path, split=split), adapt, name="humaneval")


def mbpp(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """MBPP (Austin et al. 2021), full: short Python functions; the question shows the tests."""

    def adapt(row: Row) -> Task:
        return _function(row, row["text"], [row["test_setup_code"]])

    return assemble(MBPP.rows(path, split=split), adapt, name="mbpp")


def mbpp_sanitized(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """MBPP, the 427 tasks its authors checked by hand; some texts, tests and code are other ones."""

    def adapt(row: Row) -> Task:
        return _function(row, row["prompt"], row["test_imports"])

    return assemble(MBPP_SANITIZED.rows(path, split=split), adapt, name="mbpp_sanitized")


def hotpotqa(path: str | Path | None = None, *, split: str | None = None) -> TaskSet:
    """HotpotQA (Yang et al. 2018), distractor setting: ten paragraphs, two of which the answer needs."""

    def adapt(row: Row) -> Task:
        titles, sentences = row["context"]["title"], row["context"]["sentences"]
        needed = list(dict.fromkeys(row["supporting_facts"]["title"]))
        return Task(
            id=row["id"],
            question=row["question"],
            gold=as_text(row["answer"]),
            domain="qa",
            context=tuple((title, "".join(part)) for title, part in zip(titles, sentences, strict=True)),
            meta={"type": row["type"], "level": row["level"], "supporting_titles": needed},
        )

    return assemble(HOTPOTQA.rows(path, split=split), adapt, name="hotpotqa")


def mmlu(
    path: str | Path | None = None,
    *,
    split: str | None = None,
    subjects: Collection[str] = (),
    shots: int = 0,
) -> TaskSet:
    """MMLU (Hendrycks et al. 2021): four options, 57 subjects; `shots` examples from `dev`.

    A local file may hold several splits, told apart by a column `split`; the examples are its rows of `dev`.
    """
    if shots and split == "dev":
        raise ConfigError(
            "mmlu: split is `dev` and shots are asked, but those come from `dev`. Choose `test`."
        )
    wanted = chosen("mmlu.subjects", subjects, MMLU_SUBJECTS)
    rows = [row for row in MMLU.rows(path, split=split) if row["subject"] in wanted]
    examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in MMLU.rows(path, split="dev") if shots else []:
        if path is None or row.get("split") == "dev":
            task = _choice(row)
            example = {"question": task.question, "choices": task.choices, "gold": task.gold}
            examples[row["subject"]].append(example)
    for subject in {row["subject"] for row in rows}:
        if len(examples[subject]) < shots:
            raise DataError(
                f"mmlu: shots is {shots}, but `dev` holds {len(examples[subject])} examples of {subject}. "
                "The hub has five a subject; a local file needs their rows with `dev` in a column `split`."
            )

    def adapt(row: Row) -> Task:
        return _choice(row, **({"shots": examples[row["subject"]][:shots]} if shots else {}))

    return assemble(rows, adapt, name="mmlu")


def mmlu_redux(
    path: str | Path | None = None, *, split: str | None = None, subjects: Collection[str] = ()
) -> TaskSet:
    """MMLU-Redux 2.0 (Gema et al. 2024): 100 checked questions a subject; those with an error are dropped."""
    wanted = chosen("mmlu_redux.subjects", subjects, MMLU_REDUX)
    if path is None:
        rows = [
            Row({**row, "subject": subject}, where=row.where, number=row.number)
            for subject in wanted
            for row in MMLU_REDUX[subject].rows(None, split=split)
        ]
    else:
        rows = [row for row in local_rows(path, split=split) if row["subject"] in wanted]

    def adapt(row: Row) -> Task | Dropped:
        task, verdict = _choice(row), row["error_type"]
        return task if verdict == "ok" else (task.id, f"its label is known to be bad: {verdict}")

    return assemble(rows, adapt, name="mmlu_redux")


def _function(row: Row, text: str, before: Sequence[str]) -> Task:
    """A task of MBPP: text and tests in the question; `before` are lines that the tests need."""
    shown = as_source(row["test_list"])
    solution = as_source(row["code"])
    return Task(
        id=str(row["task_id"]),
        question=f"{text.strip()}\n\nIt must pass these tests:\n\n{shown}",
        domain="code",
        tests=as_source([*(line for line in before if line), shown]),
        meta={
            "entry_point": _entry_point(shown, solution),
            "solution": solution,
            "deadline_s": MBPP_DEADLINE_S,
        },
    )


def _entry_point(tests: str, solution: str) -> str:
    """The function of the solution that the tests call first; empty where they call none."""
    defined = re.findall(r"^def\s+(\w+)", solution, re.MULTILINE)
    return next((name for name in re.findall(r"\w+(?=\s*\()", tests) if name in defined), "")


def _choice(row: Row, **facts: Any) -> Task:
    choices = as_options(row, "choices")
    return Task(
        id=f"{row['subject']}/{row.number}",
        question=as_text(row["question"]),
        gold=as_letter(row["answer"], choices),
        domain="choice",
        choices=choices,
        meta={"subject": row["subject"], **facts},
    )
