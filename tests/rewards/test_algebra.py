"""Values that only algebra can compare, among them every pair that math-verify is known to get wrong."""

import pytest
from math_verify import parse, verify

from seminar.rewards.algebra import same


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\sqrt{8}", r"2\sqrt{2}"),
        (r"\sqrt{2+\sqrt{3}}", r"\frac{\sqrt6+\sqrt2}{2}"),
        ("2k+2", "2(k+1)"),
        ("(a+5)(b+2)", "ab+2a+5b+10"),
        (r"\cot x", r"\frac{\cos x}{\sin x}"),
        (r"\sin^2 t", r"1-\cos^2 t"),
        ("y = 2x + 3", "y-2x=3"),
        ("5x - 7y + 11z + 4 = 0", "-5x+7y-11z-4=0"),
        (r"s^2 \le 8r^2", r"8r^2 \ge s^2"),
        (r"(-\infty,3) \cup (3,\infty)", r"\mathbb{R}\setminus\{3\}"),
        ("(0,3)", r"(0,2] \cup [2,3)"),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1-\sqrt5, 1+\sqrt5"),
        (r"(1, \sqrt{4})", "(1, 2)"),
        (r"1+\sqrt{3} i", r"2e^{i\pi/3}"),
        (r"\frac{e^{2 i t}}{(2+2 i)}", r"\frac{(1-i)e^{2it}}{4}"),
        (r"\sin 30^\circ", "0.5"),
        (r"\gamma^2-1", r"(\gamma-1)(\gamma+1)"),
        (r"\frac{1}{3} E_{1}+\frac{2}{3} E_{2}", r"\frac{E_1+2E_2}{3}"),
        (r"\frac{1}{2}(\exp{a*t} + \exp{-a*t})", r"\frac{e^{at}+e^{-at}}{2}"),
        ("np.arcsin(10/13)", r"\sin^{-1}(10/13)"),
        (r"\binom{5}{2}", "10"),
        ("25", "5^2"),
        (r"12\pi", "37.7"),  # 37.699: the decimal is within 1e-4
        (r"\sqrt{\frac{2133.33}{\pi}}", "26.0588"),
        ("164 \\pi \\mbox{ square feet}", r"164\pi"),
    ],
)
def test_equal_values_are_equal_however_they_are_written(gold, answer):
    assert same(gold, answer, tolerance=1e-4)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
        (r"\frac{\sqrt2}{2^{99}}", r"\frac{\sqrt2}{2^{98}}"),
        (r"\sqrt{51}", "7.14"),  # (7.14143 - 7.14) / 7.14143 = 2e-4
        (r"\pi", "3.14"),
        ("0", r"\frac{1}{10^{30}}"),
        ("2^{200}+1", "2^{200}"),  # apart by 6e-61 of their size
        (r"(-\infty,3) \cup (3,\infty)", r"(-\infty,\infty)"),
        ("(0,9) \\cup (9,36)", "(0,36)"),
        ("(0,3)", "(0,2) \\cup (2,3)"),
        ("y=5", "x=5"),
        ("x^2-10x+9=0", "0=0"),
        ("x^2-10x+9=0", "y=y"),
        ("R^2", "r^2"),
        ("2E", "2e"),
        ("2t", "2"),
        (r"\frac{37}{4} m", r"\frac{37}{4}"),
        ("y'+y=0", "y+y=0"),
        ("3y+1", "3x+1"),
        (r"\begin{pmatrix} \sqrt{4} \\ 1 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 3 \end{pmatrix}"),
        ("x+1", r"\notacommand{"),
        (r"\sqrt{2}", "6:00"),
    ],
)
def test_different_values_are_different_however_near(gold, answer):
    assert not same(gold, answer, tolerance=1e-4)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [(r"\frac{1}{2004!}", r"\frac{1}{2006!}"), ("2t", "2"), ("52_8", "52")],
)
def test_the_rules_in_front_are_needed_for_math_verify_alone_accepts(gold, answer):
    assert verify(parse(f"${gold}$"), parse(f"${answer}$"))


def test_an_interval_is_no_inequality_but_an_inequality_is_its_interval():
    # math-verify follows the form of the gold; the order of the arguments shows.
    assert same(r"2 \le x < 5", "[2,5)", tolerance=1e-4)
    assert not same("[2,5)", r"2 \le x < 5", tolerance=1e-4)
