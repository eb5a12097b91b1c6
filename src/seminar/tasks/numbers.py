r"""Text -> an exact number and how it was written; two numbers -> whether they are the same. Pure text.

What is read: `25`, `025`, `-1.5`, `.35625`, `1,234`, `$18.90`, `4.5e33`, `4.5 \times 10^{33}`, `10^{11}`,
`3/4`, `-1./3`, `\frac{3}{4}`, `1\frac{4}{5}`, `1 4/5`; before it a sign, behind it a percent sign or a unit
in words. What is not plainly a number (`2^{99}`, `\pi`, `3x`) is left to sympy.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from seminar.tasks.latex import clean, squeeze

TOLERANCE = 1e-4
"""Largest relative difference between a decimal gold and an answer (ours; the papers name none)."""
MAX_CHARS = 200
"""Longest text read as a plain number."""

Kind = Literal["integer", "rational", "decimal", "scientific"]

_DECIMAL = r"(?:\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-]?)(?:
      (?:(?P<whole>\d+)\s*)?\\frac\{{(?P<top>[+-]?{_DECIMAL})\}}\{{(?P<bottom>[+-]?{_DECIMAL})\}}
    | (?:(?P<whole2>\d+)\s)?(?P<top2>{_DECIMAL})/(?P<bottom2>{_DECIMAL})
    | (?P<decimal>{_DECIMAL})
      (?:(?:[eE]|\s?(?:\\times|\\cdot|\*|x)\s?10\^)\{{?(?P<exponent>[+-]?\d{{1,3}})\}}?)?
    | 10\^\{{?(?P<power>[+-]?\d{{1,3}})\}}?
    )(?P<percent>%?)""",
    re.VERBOSE,
)
_WORDS = re.compile(r"(?<=[\d}])\s*(?:\s[A-Za-z]{3,}|cm|mm|km|kg|ft|lbs?|oz)(?:[ /]+[A-Za-z]+){0,5}$")
_NOT_UNITS = re.compile(
    r"\b(?:and|or|hundred|thousand|million|billion|trillion|dozen|alpha|beta|gamma|delta|theta|lambda|omega|phi|rho|sigma|tau|sin|cos|tan|log|sqrt|exp|over|times|plus|minus)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as it was written."""

    value: Fraction
    """Exact; a percentage is not divided by 100."""
    kind: Kind
    """integer (also `27.0`), rational (a fraction of integers), decimal, scientific (with a power of ten)."""
    percent: bool = False
    """Whether a percent sign follows."""


@lru_cache(maxsize=10_000)
def read_number(text: str) -> Number | None:
    """The number a text plainly is; None for anything else."""
    if len(text) > MAX_CHARS:
        return None
    found = _NUMBER.fullmatch(squeeze(_without_words(clean(text))))
    if found is None:
        return None
    group = found.groupdict()
    top, bottom = group["top"] or group["top2"], group["bottom"] or group["bottom2"]
    if top is not None and bottom is not None:
        divisor = _fraction(bottom)
        if divisor == 0:
            return None
        value = int(group["whole"] or group["whole2"] or 0) + _fraction(top) / divisor
        whole_parts = _fraction(top).denominator == divisor.denominator == 1
        kind: Kind = "rational" if whole_parts else "decimal"
    elif group["power"] is not None:
        value, kind = Fraction(10) ** int(group["power"]), "rational"
    else:
        value = _fraction(group["decimal"]) * Fraction(10) ** int(group["exponent"] or 0)
        kind = "scientific" if group["exponent"] else "integer" if value.denominator == 1 else "decimal"
    if kind == "rational" and value.denominator == 1:
        kind = "integer"
    return Number(value=-value if group["sign"] == "-" else value, kind=kind, percent=bool(group["percent"]))


def same_number(gold: Number, answer: Number, *, tolerance: float = TOLERANCE) -> bool:
    """Whether an answer is the gold number.

    Exact where both are written without decimals, or one is an integer (so 105 is not 104.99). A decimal, or
    a power of ten, allows |answer - gold| <= tolerance * |gold|. With a percent sign on one side only, both
    readings count: 10 % is 10 and 0.1.
    """
    kinds = {gold.kind, answer.kind}
    exact = kinds <= {"integer", "rational"} or ("integer" in kinds and "scientific" not in kinds)
    slack = 0 if exact else Fraction(tolerance)
    pairs = [(gold.value, answer.value)]
    if gold.percent != answer.percent:
        pairs.append((_share(gold), _share(answer)))
    return any(abs(a - g) <= slack * abs(g) for g, a in pairs)


def _share(number: Number) -> Fraction:
    return number.value / 100 if number.percent else number.value


def _fraction(text: str) -> Fraction:
    return Fraction(re.sub("[, ]", "", text).removesuffix("."))


def _without_words(text: str) -> str:
    found = _WORDS.search(text)
    return text if found is None or _NOT_UNITS.search(found[0]) else text[: found.start()]
