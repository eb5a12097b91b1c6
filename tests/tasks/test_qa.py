import pytest

from seminar.tasks.qa import Match, extract_answer, match, normalise_answer, read_letters, supporting_hops

CHOICES = ("Paris", "Rome", "New York", "York")


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert normalise_answer("  The  Beatles' (album), a hit!") == "beatles album hit"
    assert match("the Beatles", "Beatles.") == Match(1.0, 1.0)


def test_f1_is_the_harmonic_mean_of_word_precision_and_recall():
    # gold 2 words, answer 4 words, 2 common: P = 2/4, R = 2/2, F1 = 2 * .5 * 1 / 1.5 = 2/3
    assert match("Barack Obama", "President Barack Hussein Obama").f1 == pytest.approx(2 / 3, rel=1e-12)
    # words count as often as they occur: common 1, P = 1/2, R = 1/3, F1 = 2 * 1/2 * 1/3 / (5/6) = 2/5
    assert match("to be be", "to to").f1 == pytest.approx(2 / 5, rel=1e-12)
    assert match("Rome", "Paris") == Match(0.0, 0.0)


def test_yes_no_and_noanswer_score_nothing_unless_both_sides_say_the_same():
    assert match("no", "no, never") == Match(0.0, 0.0)  # one common word, and yet
    assert match("yes it is", "yes") == Match(0.0, 0.0)
    assert match("noanswer", "noanswer") == Match(1.0, 1.0)


def test_an_answer_is_read_from_mark_box_or_last_line():
    assert extract_answer("Let us see.\nThe answer is Animorphs.") == "Animorphs"
    assert extract_answer("#### Chief of Protocol") == "Chief of Protocol"
    assert extract_answer(r"\boxed{yes}") == "yes"
    assert extract_answer("First line.\n\nGreenwich Village\n") == "Greenwich Village"
    assert extract_answer("First line.\nGreenw", cut=True) is None
    assert extract_answer("") is None


def test_hops_are_distinct_supporting_titles_that_are_named():
    text = "Ed Wood (film) was shot in Los Angeles. ed wood is a film; Wood is not counted."
    assert (
        supporting_hops(text, ["Ed Wood (film)", "Ed Wood (film)", "Scott Derrickson", "Los Angeles", "The"])
        == 2
    )


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("(B)", "B"),
        ("B.", "B"),
        ("B", "B"),
        ("b", "B"),
        ("B) Rome", "B"),
        ("B. Paris", "B"),  # the letter wins over the text
        ("The answer is B", "B"),
        ("The answer is (B).", "B"),
        ("Answer: **B**", "B"),
        ("(A) is wrong, (C) is too.\nSo the answer is B.", "B"),
        (r"A or C? \boxed{B}", "B"),
        (r"\boxed{\text{B}}", "B"),
        ("#### B", "B"),
        ("Rome", "B"),
        ("It must be rome, of course.", "B"),
        ("It is New York.", "C"),  # and not York, which stands within it
        ("A good question. I would say Rome.", "B"),
        ("The answer is A", "A"),
        ("A", "A"),
        ("(E)", ""),
        ("No idea at all.", ""),
        ("", ""),
        ("The answer is A or B", "AB"),
        ("The answer is A. Wait, the answer is B.", "AB"),
        ("(A) and (B)", "AB"),
        ("A\nB", "AB"),
        ("Paris or Rome", "AB"),
    ],
)
def test_letters_are_read_as_models_write_them(text, letters):
    assert "".join(read_letters(text, CHOICES)) == letters


@pytest.mark.parametrize(
    "text", ["D. both A and B", "(D) both A and B", "both A and B", "The answer is both A and B."]
)
def test_letters_within_the_text_of_an_option_are_its_text(text):
    assert read_letters(text, ("a line", "a plane", "a point", "both A and B")) == ("D",)


def test_an_option_to_the_letter_goes_before_one_that_differs_in_signs():
    assert read_letters("The answer is 11.", ("-11", "0", "11", "33/2")) == ("C",)


def test_two_identical_options_are_two_letters():
    assert read_letters("same", ("same", "same", "other")) == ("A", "B")


def test_an_unmarked_letter_in_a_cut_text_is_not_taken():
    assert read_letters("It could be B", CHOICES, cut=True) == ()
