import pytest
from hypothesis import given
from hypothesis import strategies as st

from seminar.tasks.draft_form import Draft, count_words, parse_draft, step_spans

KINDS = {
    "two-operand arithmetic": (r"20 - 12 = 8", 3),
    "assignment chain": (r"x = 20 - 12 = 8", 4),
    "date": (r"05/22/1943 + 1 day", 3),
    "fraction": (r"1/2 of 60 = 30", 4),
    "LaTeX fraction": (r"\frac{1}{2} = 0.5", 4),  # the command, its two arguments, the decimal
    "decimal": (r"3.5 * 2 = 7.0", 3),
    "money": (r"$1,250.50 - $50 = $1,200.50", 3),
    "text": (r"he pays at the counter", 5),
}


@pytest.mark.parametrize(("step", "words"), KINDS.values(), ids=KINDS.keys())
def test_each_published_kind_of_step_has_its_count_of_words(step: str, words: int) -> None:
    assert count_words(step) == words


@pytest.mark.parametrize("step", [step for step, _ in KINDS.values()], ids=KINDS.keys())
def test_each_published_kind_of_step_makes_a_valid_draft(step: str) -> None:
    assert parse_draft(f"{step}\n#### 8") == Draft(steps=(step,), answer="8", fault=None)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("20 / 4 = 5", 3),  # a slash that stands alone is an operator
        ("", 0),
        ("= + - * /", 0),
        (r"\times \cdot", 2),  # a LaTeX command is one word
        (r"\frac{a+b}{2}", 4),  # \frac a b 2
        ("x_1 = 3", 3),  # x 1 3: the underscore is no letter
        ("größer als 3,5", 3),
        ("10% of $5", 3),
        ("a, b", 2),
    ],
)
def test_words_are_counted_by_the_rule(step: str, words: int) -> None:
    assert count_words(step) == words


def test_five_words_are_allowed_and_six_are_not() -> None:
    assert parse_draft("one two three four five\n#### 1").fault is None
    assert parse_draft("one two three four five six\n#### 1").fault == "long_step"


def test_one_long_step_among_short_ones_makes_the_draft_invalid() -> None:
    text = "2 * 3 = 6\nso there are six apples left\n6 + 1 = 7\n#### 7"
    assert parse_draft(text) == Draft(
        steps=("2 * 3 = 6", "so there are six apples left", "6 + 1 = 7"), answer="7", fault="long_step"
    )


def test_without_the_word_rule_a_long_step_is_no_fault() -> None:
    assert parse_draft("one two three four five six\n#### 1", max_words=None).valid


@pytest.mark.parametrize(
    ("text", "fault", "answer"),
    [
        ("", "no_answer", None),
        ("2 + 2 = 4", "no_answer", None),
        ("2 + 2 = 4\n####", "no_answer", None),
        ("2 + 2 = 4\n####\n4", "no_answer", None),
        ("2 + 2 = 4 #### 4", "no_answer", None),  # the mark opens a line of its own
        ("#### 4", "no_steps", "4"),
        ("\n \n#### 4", "no_steps", "4"),
        ("2 + 2 = 4\n#### 4\n#### 5", "text_after_answer", "4"),
        ("2 + 2 = 4\n#### 4\nQuestion: next", "text_after_answer", "4"),
        ("2 + 2 = 4\r\n  ####4  \r\n\n", None, "4"),
    ],
)
def test_each_way_to_break_the_form_has_its_name(text: str, fault: str | None, answer: str | None) -> None:
    draft = parse_draft(text)
    assert (draft.fault, draft.answer) == (fault, answer)


def test_a_draft_cut_by_the_token_limit_is_invalid_even_with_an_answer() -> None:
    draft = parse_draft("60 * 2 = 120\n#### 12", stop="length")
    assert (draft.fault, draft.valid) == ("truncated", False)


def test_an_answer_of_several_lines_is_read_whole_when_asked_for() -> None:
    draft = parse_draft("loop over items\n####\ndef f(x):\n    return x\n", answer_lines=True)
    assert (draft.answer, draft.fault) == ("def f(x):\n    return x", None)


def test_step_spans_follow_the_lines_and_end_with_the_answer() -> None:
    text = "1 + 1 = 2\n\n2 * 3 = 6\n#### 6\n"
    assert [text[a:b] for a, b in step_spans(text)] == ["1 + 1 = 2\n", "\n2 * 3 = 6\n", "#### 6\n"]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("", ()),
        ("\n\n", ((0, 2),)),
        ("a", ((0, 1),)),
        ("a\n\n", ((0, 3),)),
        ("#### 1\nb\n", ((0, 9),)),
        ("a\nb", ((0, 2), (2, 3))),
    ],
)
def test_step_spans_of_odd_texts(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    assert step_spans(text) == spans


@given(st.text(alphabet="a1 \n\r\t#/.\\{}\u2028\u00e9"))
def test_step_spans_tile_every_text(text: str) -> None:
    spans = step_spans(text)
    assert "".join(text[a:b] for a, b in spans) == text
    assert all(a < b for a, b in spans)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    draft = parse_draft(text)
    assert draft.valid == (draft.fault is None)


@pytest.mark.parametrize("unit", ["#", "\n", " ", "\\", "a/", "####", "{}", "\\frac", ".,/", "\n####"])
def test_a_megabyte_of_noise_is_read_in_one_pass(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert parse_draft(text).fault is not None
    assert step_spans(text)[-1][1] == len(text)
