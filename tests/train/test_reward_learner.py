import json

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from seminar.errors import DivergenceError, ModelError, RunError
from seminar.evaluate.judges import within_question_auc
from seminar.models.reward_encoder import build_encoder
from seminar.rewards.model import NUMBERS, Evidence, RewardModel
from seminar.tasks.review_form import CRITERIA, Review
from seminar.train import reward_model
from seminar.train.reward_model import Lesson, RewardLearner


def tokenize(text: str) -> list[int]:
    return list(text.encode())


def learner(
    *,
    width: int = 32,
    layers: int = 1,
    graded: bool = False,
    capacity: int = 256,
    lr: float = 3e-3,
) -> RewardLearner:
    encoder = build_encoder(layers=layers, vocab=256, width=width, numbers=NUMBERS, seed=0)
    model = RewardModel(encoder, tokenize, max_tokens=128)
    return RewardLearner(model, lr=lr, graded=graded, capacity=capacity, seed=0)


def lesson(number: int, *, drafts: int = 6) -> Lesson:
    """A draft is right iff its last digit is even; peers know nothing; easy questions have more of them."""
    rng = np.random.default_rng((7, number))
    easy = number % 2 == 0
    right = rng.random(drafts) < (0.7 if easy else 0.3)
    shown = []
    for good in right:
        digit = 2 * rng.integers(5) + (0 if good else 1)
        score = float(rng.random())
        review = Review(scores=dict.fromkeys(CRITERIA, score), overall=score, feedback="ok")
        shown.append(
            Evidence(
                question="easy" if easy else "hard",
                draft=f"{rng.integers(99)}\n#### {digit}",
                reviews=(review, None),
            )
        )
    return Lesson(
        question=str(number),
        shown=tuple(shown),
        targets=tuple(map(float, right)),
    )


def taught(count: int = 8, **settings) -> RewardLearner:
    pupil = learner(**settings)
    for number in range(count):
        pupil.remember(lesson(number))
    return pupil


def weights(pupil: RewardLearner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in pupil.state().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("graded", [False, True])
def test_it_learns_a_planted_rule_about_the_drafts_of_a_question(graded: bool) -> None:
    pupil = learner(graded=graded)
    for number in range(192):
        pupil.remember(lesson(number))
    pupil.update(steps=50, questions=16)
    unseen = [lesson(number) for number in range(1000, 1040)]
    scores = [pupil.model.predict(one.shown) for one in unseen]
    assert within_question_auc(scores, [[target == 1 for target in one.targets] for one in unseen]) > 0.95


def test_every_question_weighs_the_same_however_many_drafts_it_has() -> None:
    few, many = lesson(0, drafts=2), lesson(1, drafts=6)
    losses = []
    for lessons in ([few], [many], [few, many]):
        pupil = taught()
        pupil.update(steps=3, questions=8)
        pupil._lessons.clear()
        pupil._encoded.clear()
        for one in lessons:
            pupil.remember(one)
        losses.append(pupil.update(steps=1, questions=2)["loss"])
    assert losses[2] == pytest.approx((losses[0] + losses[1]) / 2, rel=1e-5)


def test_the_first_loss_is_that_of_one_half_whatever_the_weights() -> None:
    # a new R_phi says 1/2: cross-entropy ln 2, squared error 1/4
    assert taught().update(steps=1, questions=8)["loss"] == pytest.approx(np.log(2), rel=1e-6)
    assert taught(graded=True).update(steps=1, questions=8)["loss"] == pytest.approx(0.25, rel=1e-6)


def test_with_nothing_to_learn_from_nothing_changes() -> None:
    pupil = learner()
    before = weights(pupil)
    assert pupil.update(steps=2, questions=4) == {"buffer": 0.0}
    assert same(weights(pupil), before)


def test_the_buffer_is_bounded_and_forgets_the_oldest() -> None:
    pupil = taught(7, capacity=3)
    assert [one["question"] for one in pupil.facts()["lessons"]] == ["4", "5", "6"]
    assert pupil.update(steps=1, questions=9)["buffer"] == 3.0


def test_any_split_into_passes_gives_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = taught()
    metrics = whole.update(steps=1, questions=8)
    monkeypatch.setattr(reward_model, "MICRO_TOKENS", 40)
    split = taught()
    again = split.update(steps=1, questions=8)
    assert again == pytest.approx(metrics, rel=1e-6)
    for name, tensor in whole.state().items():
        if name.endswith("exp_avg"):  # a tenth of the gradient
            torch.testing.assert_close(split.state()[name], tensor, rtol=1e-4, atol=1e-7)


def test_what_was_cut_is_counted() -> None:
    pupil = learner()
    pupil.remember(Lesson(question="q", shown=(Evidence(question="q" * 200, draft="d"),), targets=(1.0,)))
    assert pupil.update(steps=1, questions=1)["cut_tokens"] == 73.0  # 200 + 1 - 128


def test_a_resumed_learner_ends_bit_for_bit_where_the_undisturbed_one_does() -> None:
    straight = taught(20)
    straight.update(steps=2, questions=4)
    state, facts = load(save(straight.state())), json.loads(json.dumps(straight.facts()))
    resumed = learner()
    resumed.restore(state, facts)
    for pupil in (straight, resumed):
        pupil.remember(lesson(99))
    assert straight.update(steps=3, questions=4) == resumed.update(steps=3, questions=4)
    assert same(weights(straight), weights(resumed))
    assert straight.facts() == resumed.facts()
    shown = lesson(5).shown
    assert straight.model.predict(shown) == resumed.model.predict(shown)


def test_a_state_from_before_the_first_step_is_taken_up() -> None:
    fresh = taught(4)
    resumed = learner()
    resumed.restore(fresh.state(), fresh.facts())
    fresh.update(steps=1, questions=4)
    resumed.update(steps=1, questions=4)
    assert same(weights(fresh), weights(resumed))


def test_a_state_of_another_size_or_tokenizer_is_refused() -> None:
    pupil = taught(2)
    with pytest.raises(RunError, match="this run needs"):
        learner(width=64).restore(pupil.state(), pupil.facts())
    with pytest.raises(ModelError, match="another tokenizer"):
        learner().restore(pupil.state(), {**pupil.facts(), "tokenizer": "0"})


def test_no_global_random_number_is_drawn() -> None:
    pupil = taught(4)
    before = torch.get_rng_state()
    pupil.update(steps=1, questions=4)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_that_is_no_number_stops_before_the_weights_change() -> None:
    pupil = taught(4)
    with torch.no_grad():
        pupil.model.encoder.out.bias.fill_(torch.nan)
    before = weights(pupil)
    with pytest.raises(DivergenceError, match="step 0 of the reward model"):
        pupil.update(steps=1, questions=4)
    assert all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(before.values(), weights(pupil).values(), strict=True)
    )
