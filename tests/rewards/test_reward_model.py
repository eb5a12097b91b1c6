from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seminar.errors import ModelError
from seminar.models.reward_encoder import build_encoder
from seminar.rewards.model import (
    NUMBERS,
    Encoded,
    Evidence,
    RewardModel,
    batches,
    evidence,
    load_reward_model,
)
from seminar.tasks.review_form import CRITERIA, Review
from seminar.types import Task

REVIEW = Review(scores={**dict.fromkeys(CRITERIA, 1.0), "relevance": None}, overall=0.25, feedback="no")


def tokenize(text: str) -> list[int]:
    return list(text.encode())


def model(*, max_tokens: int = 64, seed: int = 0) -> RewardModel:
    encoder = build_encoder(layers=1, vocab=256, width=32, numbers=NUMBERS, seed=seed)
    torch.nn.init.normal_(encoder.out.weight, generator=torch.Generator().manual_seed(seed))
    return RewardModel(encoder, tokenize, max_tokens=max_tokens)


def test_the_evidence_stands_in_order_with_a_position_for_each_reviews_numbers() -> None:
    encoded = model().encode(Evidence(question="q", draft="dd", reviews=(REVIEW, None)))
    # coherence and step validity 1, relevance not given, completeness and correctness 1, overall .25; then a
    # missing review
    scores = (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.25, 1.0)
    assert encoded == Encoded(
        ids_T=(113, 100, 100, -1, 110, 111, -1),
        segment_T=(0, 1, 1, 2, 2, 2, 2),
        numbers_T=((), (), (), scores, (), (), (0.0,) * NUMBERS),
        cut=0,
    )


def test_what_is_too_long_is_cut_where_it_matters_least_and_counted() -> None:
    long = replace(REVIEW, feedback="f" * 9)
    encoded = model(max_tokens=16).encode(Evidence(question="abcdefgh", draft="0123456789", reviews=(long,)))
    # a quarter for the review (its numbers and 3 tokens), half for the draft's tail, the rest for the
    # question's
    words = "".join(" " if i < 0 else chr(i) for i in encoded.ids_T)
    assert words == "efgh" + "23456789" + " fff"
    assert encoded.cut == 4 + 2 + 6


def test_empty_evidence_is_encoded_and_scored() -> None:
    assert model().encode(Evidence(question="", draft="")) == Encoded(
        ids_T=(), segment_T=(), numbers_T=(), cut=0
    )
    assert model().predict([Evidence(question="", draft="")]) == pytest.approx([0.5])


def test_predictions_keep_the_order_and_do_not_depend_on_company() -> None:
    judge = model()
    shown = [Evidence(question="q" * n, draft="d" * (7 * n % 5), reviews=(REVIEW,)) for n in range(1, 12)]
    together = judge.predict(shown)
    assert together == pytest.approx([judge.predict([one])[0] for one in shown], rel=1e-5)
    assert len(set(together)) == len(shown)
    assert judge.predict([]) == []


def test_batches_hold_similar_lengths_within_the_limit() -> None:
    encoded = [
        Encoded(ids_T=(1,) * n, segment_T=(1,) * n, numbers_T=((),) * n, cut=0) for n in (5, 1, 9, 2, 2, 30)
    ]
    assert batches(encoded, max_tokens=10) == [[1, 3, 4], [0], [2], [5]]


def test_gold_reaches_no_input() -> None:
    marker = "PLANTED-7431"
    task = Task(
        id="t",
        question="q",
        gold=marker,
        tests=marker,
        meta={"solution": marker, "shots": [{"question": marker, "choices": (), "gold": marker}]},
    )
    shown = evidence(task, "draft", [REVIEW, None])
    assert shown == Evidence(question="q", draft="draft", reviews=(REVIEW, None))
    ids = model(max_tokens=512).encode(shown).ids_T
    assert marker not in bytes(i for i in ids if i >= 0).decode()


def test_a_question_is_shown_with_its_options_and_paragraphs() -> None:
    task = Task(id="t", question="Which?", choices=("x", "y"), context=(("Title", "Text."),), domain="choice")
    assert evidence(task, "d", []).question == "Title\nText.\n\nWhich?\nA. x\nB. y"


def test_a_saved_model_says_the_same(tmp_path: Path) -> None:
    judge = model(max_tokens=48, seed=3)
    judge.save(tmp_path)
    loaded = load_reward_model(tmp_path, tokenize)
    shown = [Evidence(question="q", draft="abc", reviews=(REVIEW, None)), Evidence(question="r", draft="")]
    assert loaded.predict(shown) == judge.predict(shown)
    assert loaded.max_tokens == 48


def test_a_model_for_another_tokenizer_is_refused(tmp_path: Path) -> None:
    model().save(tmp_path)
    with pytest.raises(ModelError, match="another tokenizer"):
        load_reward_model(tmp_path, lambda text: [byte ^ 1 for byte in text.encode()])


def test_a_folder_without_a_reward_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        load_reward_model(tmp_path, tokenize)
    model().save(tmp_path)
    weights = tmp_path / "reward_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match="cannot be read"):
        load_reward_model(tmp_path, tokenize)


def test_a_tokenizer_with_more_ids_than_the_encoder_is_refused() -> None:
    encoder = build_encoder(layers=1, vocab=100, width=32, numbers=NUMBERS, seed=0)
    with pytest.raises(ModelError, match="reward_model knows 100 token ids"):
        RewardModel(encoder, tokenize, max_tokens=64)
