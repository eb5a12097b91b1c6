r"""Gold and answer -> the same value or not, where algebra is needed: sympy and math-verify, no deadline.

Run as a module it is a worker of `seminar.rewards.pool`: lines of JSON in, one verdict a line out.
Numbers first: math-verify rounds, and so takes `1/2^{99}` for `1/2^{98}` and `1/2004!` for `1/2006!`.
"""

import logging
import re
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy, normalize_latex
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from math_verify.grader import should_treat_as_complex
from sympy import Basic, Expr, Float, I, Integer, MatrixBase, Rational, nan, zoo
from sympy.core.relational import Relational

from seminar.rewards.worker import serve
from seminar.tasks.equality import compare

# It warns that its own timeouts are off; ours are on.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_NORMALISATION = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_FREE = {r"\gamma": r"\Upsilon", "E": r"\Xi"}
"""Names that sympy reads as constants or functions, and the letters that stand in for them on both sides."""
_TAKEN = re.compile(r"\\gamma(?![a-zA-Z])|(?<![a-zA-Z\\])E(?![a-zA-Z0-9])")
_DIGITS = 30
"""Digits to which exact constants are computed; all but five must agree."""


def same(gold: str, answer: str, *, tolerance: float) -> bool:
    """Whether an answer is the gold answer; what sympy cannot read is wrong. May never end: use a pool."""
    return bool(compare(gold, answer, leaf=lambda g, a: _leaf(g, a, tolerance), tolerance=tolerance))


def _leaf(gold: str, answer: str, tolerance: float) -> bool:
    wanted, given = _parse(gold), _parse(answer)
    if wanted is None or given is None:
        return False
    if _constant(wanted) and _constant(given):
        return _same_constant(wanted, given, tolerance)
    if isinstance(wanted, Expr) and isinstance(given, Expr) and _differ(wanted, given, tolerance):
        return False
    if isinstance(wanted, Relational) and isinstance(given, Relational) and _names(wanted) != _names(given):
        return False  # `0 = 0` against an equation: `solve` may take minutes to say no
    return bool(verify(wanted, given, timeout_seconds=None))


@lru_cache(maxsize=2_000)
def _parse(text: str) -> Basic | MatrixBase | None:
    latex = _TAKEN.sub(lambda name: _FREE[name[0]], normalize_latex(text.replace("%", r"\%"), _NORMALISATION))
    try:
        value = latex2sympy(
            latex,
            is_real=not should_treat_as_complex(latex),
            convert_degrees=True,
            normalization_config=None,
            conversion_config=_CONVERSION,
        )
        if value.has(nan, zoo):
            return None
        return value.subs({symbol: I for symbol in value.free_symbols if symbol.name == "i"})
    except Exception:  # the parser raises plain Exception for what it cannot read
        return None


def _names(value: Basic) -> set[str]:
    return {str(symbol) for symbol in value.free_symbols}


def _constant(value: Basic | MatrixBase) -> bool:
    return isinstance(value, Expr) and not value.free_symbols and bool(value.is_number)


def _same_constant(gold: Any, answer: Any, tolerance: float) -> bool:
    """Two constants: rational ones exactly, closed forms to `_DIGITS`, decimals by relative tolerance."""
    gold, answer = gold.doit(), answer.doit()
    if isinstance(gold, Rational) and isinstance(answer, Rational):
        return bool(gold == answer)
    decimals = (gold.has(Float) or answer.has(Float)) and not isinstance(gold, Integer)
    slack = tolerance if decimals else 10.0 ** (5 - _DIGITS)
    wanted, given = gold.evalf(_DIGITS), answer.evalf(_DIGITS)
    scale = max(abs(wanted), abs(given))
    if not scale.is_finite or scale < 1e-100:  # nothing to divide by: let algebra say whether both are zero
        return bool(verify(gold, answer, timeout_seconds=None))
    return bool(abs(wanted - given) <= slack * scale)


def _differ(gold: Expr, answer: Expr, tolerance: float) -> bool:
    """Whether two formulas differ clearly at one point: cheap, where `simplify` is slow to say no."""
    symbols = sorted(gold.free_symbols | answer.free_symbols, key=str)
    point = {symbol: Float(0.7321 + 0.4177 * k) for k, symbol in enumerate(symbols)}
    try:
        wanted, given = gold.evalf(15, subs=point), answer.evalf(15, subs=point)
        return bool(abs(wanted - given) > tolerance * max(abs(wanted), abs(given)))
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return False  # no number there (derivatives, functions without a body): algebra decides


def main() -> None:
    """Answer jobs from standard input until it closes: {gold, answer, tolerance} -> true or false."""
    serve(lambda job: same(job["gold"], job["answer"], tolerance=job["tolerance"]))


if __name__ == "__main__":
    main()
