import pytest

from seminar.tasks.maths import (
    after_think,
    check_gold,
    extract_answer,
    last_box,
    marked_answers,
    normalise_answer,
)


def test_the_last_box_is_taken_alone():
    assert last_box(r"\boxed{3} and \boxed{5}") == "5"


def test_a_box_holds_nested_braces():
    assert last_box(r"$\boxed{\frac{1}{\sqrt{2}}}$") == r"\frac{1}{\sqrt{2}}"


def test_a_box_that_never_closes_is_none():
    assert last_box(r"\boxed{7} or rather \boxed{8") == "7"
    assert last_box(r"\boxed{8") is None


def test_set_braces_within_a_box_are_text():
    assert last_box(r"\boxed{\{1, 2\}}") == r"\{1, 2\}"


def test_a_box_without_braces_or_by_its_other_name_is_a_box():
    assert last_box(r"$\boxed 7$") == "7"
    assert last_box(r"\fbox{7}") == "7"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"3 + 4 = 7, so \boxed{7}", "7"),
        (r"The final answer is: $\boxed{\frac12}$. I hope it is correct.", r"\frac12"),
        ("2 + 2 = 4\n4 * 3 = 12\n#### 12", "12"),
        ("#### 1\n#### 2", "2"),
        ("So the answer is 42.", "42"),
        ("The answer is 3.5 dollars. That was easy.", "3.5 dollars"),
        ("**Answer:** 42", "42"),
        ("**The answer is: 42**", "42"),
        ("The answer is $x = 5$, since the rest vanishes.", "$x = 5$"),
        ("The answer is:\n\n$$x = 5$$", "$$x = 5$$"),
        ("The answers are many. The answer is $3$ and $5$.", "$3$ and $5$"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        ("7", "7"),
        (r"164 \pi \mbox{ square feet}", r"164 \pi \mbox{ square feet}"),
        ("She needs 3 bags and then pays 18 dollars", "18"),
        ("Hence the area must be $12\\pi$ in all.", "$12\\pi$"),
        (r"Hence the two are \(x=1\) and \(x=2\) as was said.", r"\(x=1\) and \(x=2\)"),
    ],
)
def test_an_answer_is_found_where_models_put_it(text, answer):
    assert extract_answer(text) == answer


def test_a_text_without_number_formula_or_mark_gives_no_answer():
    assert extract_answer("I do not know how to do this.") is None
    assert extract_answer("") is None
    assert extract_answer("  \n ") is None


def test_an_empty_box_is_no_answer_and_an_earlier_one_does_not_count():
    assert extract_answer(r"\boxed{7} \boxed{}") is None


def test_what_was_thought_does_not_count():
    assert after_think("<think>a</think> b</think>c") == "c"
    assert extract_answer(r"maybe \boxed{3}</think> It is \boxed{4}.") == "4"
    assert extract_answer(r"<think>maybe \boxed{3}") is None


def test_a_cut_text_counts_only_as_far_as_its_whole_lines():
    assert extract_answer("#### 12", cut=True) is None  # it may have become 125
    assert extract_answer("#### 12\nAlso", cut=True) == "12"
    assert extract_answer("so far 3 + 4 = 7 and then", cut=True) is None
    assert extract_answer(r"\boxed{7} and then", cut=True) == "7"


def test_marks_are_listed_in_order():
    assert marked_answers("The answer is 3. No, the answer is 4.") == ["3", "4"]


def test_a_full_stop_after_an_initial_or_a_title_ends_no_sentence():
    assert marked_answers("The answer is J. K. Rowling. She wrote it.") == ["J. K. Rowling"]
    assert marked_answers("The answer is St. Louis. It is a city.") == ["St. Louis"]


@pytest.mark.parametrize(
    "answers",
    [
        ("0.50", "1/2", r"\frac12", r"\dfrac{1}{2}", "$0.5$", ".5"),
        ("27.0", "27", "027", r"27\text{ cm}", "x = 27"),
        ("1,-2", "-2, 1", r"-2 \text{ and } 1", r"\{1,-2\}"),
        (r"\text{Evelyn}", "evelyn"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        ("(0.5, 1)", "(1/2,1.0)"),
        (r"2\sqrt{5}", r"2 \sqrt5"),
    ],
)
def test_answers_that_say_the_same_are_counted_as_one_vote(answers):
    assert len({normalise_answer(answer) for answer in answers}) == 1


def test_different_answers_are_different_votes():
    answers = ["1", "-1", "1%", "(1,2)", "(2,1)", "1,2", "x", "X", "", r"\frac{1}{3}", "0.333", "52_8", "52"]
    assert len({normalise_answer(answer) for answer in answers}) == len(answers)


def test_a_gold_that_cannot_be_graded_is_told():
    assert check_gold("  ") == "it is empty"
    assert check_gold("$$") == "it is empty"
    assert check_gold(r"\frac{1}{2") == "its braces do not pair up"
    assert check_gold("1" * 3000) == "it has 3000 characters; at most 2000 are compared"
    assert check_gold(r"\{1, 2\}") is None


HUGE = 100_000
ADVERSARIAL = [
    *(
        "{" * HUGE,
        "}" * HUGE,
        "\\" * HUGE,
        "$" * HUGE,
        " " * HUGE,
        "1" * HUGE,
        "1," * (HUGE // 2),
        "a" * HUGE,
    ),
    *("\\boxed{" * (HUGE // 7), "\\boxed " * (HUGE // 7), "\\(" * (HUGE // 2), "\\[" * (HUGE // 2)),
    *("answer is " * (HUGE // 10), "answer is $x$, " * (HUGE // 15), "answer is" + " " * HUGE + "x"),
    *("#### " * (HUGE // 5), "####" + " " * HUGE, ". " * (HUGE // 2) + "x", "<think>" * (HUGE // 7)),
]


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda text: text[:10])
def test_a_hundred_kilobytes_made_to_stall_a_parser_are_read_in_linear_time(text):
    # A quadratic pattern would take minutes here; what is read does not matter.
    assert isinstance(extract_answer(text), str | None)
    assert isinstance(normalise_answer(text), str)
