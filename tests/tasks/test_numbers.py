from fractions import Fraction

import pytest

from seminar.tasks.numbers import Number, read_number, same_number


def number(text: str) -> Number:
    read = read_number(text)
    assert read is not None, text
    return read


def same(gold: str, answer: str) -> bool:
    return same_number(number(gold), number(answer))


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("25", 25, "integer"),
        ("025", 25, "integer"),
        ("27.0", 27, "integer"),
        ("+2", 2, "integer"),
        ("-10", -10, "integer"),
        ("\N{MINUS SIGN}3", -3, "integer"),
        ("1,450,000", 1_450_000, "integer"),
        (r"11,\! 111,\! 111,\! 100", 11_111_111_100, "integer"),
        ("2{,}016{,}532", 2_016_532, "integer"),
        (r"\$32,\!348", 32_348, "integer"),
        (r"90^\circ", 90, "integer"),
        (r"60^{\circ}", 60, "integer"),
        (r"864 \mbox{ inches}^2", 864, "integer"),
        ("18 dollars per day", 18, "integer"),
        (r"10^{11}", 10**11, "integer"),
        (r"\frac{66}{11}", 6, "integer"),
        (".0000672", Fraction(672, 10**7), "decimal"),
        (r"\$18.90", Fraction(189, 10), "decimal"),
        ("1/2", Fraction(1, 2), "rational"),
        ("-1./3", Fraction(-1, 3), "rational"),
        (r"\frac43", Fraction(4, 3), "rational"),
        (r"- \frac 59", Fraction(-5, 9), "rational"),
        (r"\dfrac{270}7\text{ degrees}", Fraction(270, 7), "rational"),
        (r"137 \frac{1}{2}", Fraction(275, 2), "rational"),
        ("1 4/5", Fraction(9, 5), "rational"),
        ("4.5e33", 45 * 10**32, "scientific"),
        ("1.77e-6", Fraction(177, 10**8), "scientific"),
        (r"4.5 \times 10^{33}", 45 * 10**32, "scientific"),
        ("4.5 x 10^33", 45 * 10**32, "scientific"),
    ],
)
def test_a_number_is_read_exactly_however_it_is_written(text, value, kind):
    assert number(text) == Number(value=Fraction(value), kind=kind)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "3x",
            "2 ab",
            r"2^{99}",
            r"\pi",
            "6:00",
            "1,2",
            "12,9",
            "(6,235)",
            "52_8",
            "5 million",
            "3 and 4",
        ),
        *("1/0", r"\frac{1}{0}", "1e9999", "9" * 500, "inf", "nan", "1e", "--1", "2 pi", "2t", "3 alpha"),
    ],
)
def test_what_is_not_plainly_a_number_is_left_alone(text):
    assert read_number(text) is None


def test_integers_are_exact():
    assert same("1000000", "1000000.0")
    assert not same("1000000", "1000001")
    assert not same("105", "104.99")  # within 1e-4, but a count is a count
    assert not same("104.99", "105")


def test_fractions_are_exact_however_small():
    assert not same("1/1267650600228229401496703205376", "1/633825300114114700748351602688")  # 2^-100, 2^-99
    assert same("2/4", "1/2")


def test_decimals_allow_a_relative_difference_of_one_in_ten_thousand():
    assert same("20.39", "20.391")  # 0.001 / 20.39 = 4.9e-5
    assert not same("20.39", "20.4")  # 0.01 / 20.39 = 4.9e-4
    assert same("1/3", "0.33333")
    assert not same("1/3", "0.333")  # (1/3 - 0.333) / (1/3) = 1e-3
    assert not same("0.022", ".0217")


def test_the_tolerance_is_an_argument():
    assert same_number(number("0.022"), number(".0217"), tolerance=0.02)  # 0.0003 / 0.022 = 0.0136


def test_a_power_of_ten_allows_the_same_difference():
    assert same("4.5e33", "4.5 x 10^33")
    assert same("5.47e5", "547000")
    assert not same("4.5e33", "4.6e33")


def test_a_percent_sign_on_one_side_leaves_both_readings_open():
    assert same(r"10\%", "10")
    assert same(r"10\%", "0.1")
    assert same("0.51", "51 percent")
    assert not same(r"10\%", r"0.1\%")
    assert not same("10%", "1000")


def test_zero_has_no_neighbours():
    assert same("0", "0.0")
    assert not same("0", "1e-30")
