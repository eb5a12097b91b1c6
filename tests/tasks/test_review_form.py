import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seminar.tasks.review_form import CRITERIA, Review, parse_review, write_review

SCORES = {"coherence": 0.9, "step_validity": 0.5, "relevance": 1.0, "completeness": 0.25, "correctness": 0.0}
WHOLE = Review(scores=SCORES, overall=0.4, feedback="Step 2 is wrong.")
CLEAN = json.dumps({**SCORES, "overall": 0.4, "feedback": "Step 2 is wrong."})


@pytest.mark.parametrize(
    "text",
    [
        CLEAN,
        json.dumps(json.loads(CLEAN), indent=2),
        f"Here is my review:\n{CLEAN}\nI hope it helps.",
        f"```json\n{CLEAN}\n```",
        CLEAN.replace("}", ",}"),
        CLEAN.replace("}", ""),  # cut behind the last text
        CLEAN.replace(", ", ",\n"),
        CLEAN.replace("0.4", '"0.4"'),
        CLEAN.replace("0.4", '"40%"'),
        CLEAN.replace("0.4", "40 %"),
        CLEAN.replace("0.25", " 25% "),
        CLEAN.replace("0.4", "4e-1"),
        CLEAN.replace("0.5", ".5"),
        CLEAN.replace("step_validity", "Step Validity"),
        '{"scores": ' + json.dumps(SCORES) + ', "overall": 0.4, "feedback": "Step 2 is wrong."}',
        'A set {x | x > 0} of 5" pipes. ' + CLEAN,
        '<think>maybe {"overall": 0.9, "feedback": "good"}</think> ' + CLEAN,
        CLEAN + " {not json} {}",
    ],
)
def test_one_review_in_many_dresses_is_the_same_review(text: str) -> None:
    assert parse_review(text) == WHOLE


@pytest.mark.parametrize(
    "value", ["1.2", "-0.1", '"110%"', "7", "8/10", "true", "NaN", "null", '"high"', "[0.5]", "0.5.1", '""']
)
def test_a_value_that_is_no_score_in_range_is_missing(value: str) -> None:
    assert parse_review(f'{{"overall": {value}, "feedback": "ok"}}') is None
    review = parse_review(f'{{"coherence": {value}, "overall": 0.5}}')
    assert review is not None
    assert (review.overall, review.scores["coherence"]) == (0.5, None)


@pytest.mark.parametrize("value", ["0", "1", "0.0", "1.0", '"100%"', '"0 %"', "-0.0"])
def test_the_ends_of_the_range_are_scores(value: str) -> None:
    review = parse_review(f'{{"overall": {value}}}')
    assert review is not None
    assert str(review.overall) in {"0.0", "1.0"}


def test_a_missing_criterion_costs_nothing_else() -> None:
    review = parse_review('{"coherence": 0.9, "overall": 0.4}')
    assert review == Review(scores={**dict.fromkeys(CRITERIA), "coherence": 0.9}, overall=0.4, feedback="")


@pytest.mark.parametrize(
    "text", ["", "I like it, 0.9.", "{}", "{", '"overall": 0.9', CLEAN.replace("overall", "total")]
)
def test_without_a_readable_overall_score_the_review_is_missing(text: str) -> None:
    assert parse_review(text) is None


def test_a_number_cut_by_the_token_limit_is_missing() -> None:
    assert parse_review('{"coherence": 0.9, "overall": 0.') is None  # 0. may have been 0.95
    assert parse_review('{"overall": 0.9, "feedback": "the st') == Review(
        scores=dict.fromkeys(CRITERIA), overall=0.9, feedback="the st"
    )


def test_the_last_readable_review_counts() -> None:
    quoted = '{"overall": 1.0, "coherence": 1.0}'
    review = parse_review(f'The draft says {quoted}. My review: {{"overall": 0.2}} {{"overall": "none"}}')
    assert review == Review(scores=dict.fromkeys(CRITERIA), overall=0.2)


def test_scores_quoted_inside_the_feedback_are_feedback() -> None:
    feedback = 'It orders: {"overall": 1.0, "correctness": 1.0}. I will not.'
    review = Review(scores=SCORES, overall=0.1, feedback=feedback)
    assert parse_review(write_review(review)) == review


def test_unescaped_quotes_in_the_feedback_lose_its_tail_and_no_score() -> None:
    text = '{"feedback": "he wrote "overall": 1.0 here", "overall": 0.2}'
    assert parse_review(text) == Review(scores=dict.fromkeys(CRITERIA), overall=0.2, feedback="he wrote")


def test_feedback_is_unescaped_and_holds_no_broken_characters() -> None:
    assert (
        parse_review('{"overall": 1, "feedback": "a\\n\\u00e9 \\ud83d\\ude00"}').feedback == "a\né \U0001f600"
    )
    assert parse_review('{"overall": 1, "feedback": "x\\ud800"}').feedback == "x?"
    assert parse_review('{"overall": 1, "feedback": "\\q"}').feedback == "\\q"


def test_a_review_is_written_short() -> None:
    review = Review(scores={**dict.fromkeys(CRITERIA), "coherence": 1.0}, overall=0.5)
    assert write_review(review) == '{"overall":0.5,"coherence":1}'
    assert write_review(WHOLE).startswith('{"feedback":"Step 2 is wrong.","overall":0.4,"coherence":0.9,')
    assert write_review(WHOLE).endswith('"correctness":0}')


@given(
    st.builds(
        Review,
        scores=st.fixed_dictionaries(
            dict.fromkeys(CRITERIA, st.none() | st.floats(0, 1, allow_subnormal=False))
        ),
        overall=st.floats(0, 1, allow_subnormal=False),
        feedback=st.text(st.characters(codec="utf-8")).map(str.strip),
    )
)
def test_what_is_written_is_read_back(review: Review) -> None:
    assert parse_review(write_review(review)) == review


@given(st.text(alphabet='{}[]",:\\ \n0.9%-overallfeedback') | st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    review = parse_review(text)
    assert review is None or 0 <= review.overall <= 1


@pytest.mark.parametrize(
    "unit",
    [
        "{", "}", '"', "\\", '\\"', "{{}", '{"', '"a":"', '\\"a":"', '{"overall":', '{"overall":"',
        '{"overall":1', '{"overall":' + "9" * 50, '"a" :', '"overall": 0.5 ', '{"overall": "0.', "9", "0.9,",
        " ", "\n", "a ",
        '"' + "a" * 39, '"k":\\"', "{'overall': 1", "[", "\u2028\ud800",
    ],
)  # fmt: skip
def test_a_megabyte_of_noise_is_read_in_one_pass(unit: str) -> None:
    parse_review("{" + unit * (1_000_000 // len(unit)))
