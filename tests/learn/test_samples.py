"""Packing: layout, the shift by one, splitting; the forward itself is tested with the policy."""

import numpy as np
import pytest

from seminar.errors import ConfigError
from seminar.learn.samples import from_groups, pack
from seminar.types import Group, Sample, Score, Task, Turn


def sample(prompt, completion, *, agent="a", temperature=1.0):
    return Sample(
        agent=agent,
        prompt_ids=prompt,
        completion_ids=completion,
        temperature=temperature,
        advantages=tuple(float(c) / 10 for c in completion),
        engine_logprobs=tuple(-float(c) for c in completion),
    )


def test_one_row_holds_a_prompt_and_all_its_completions_without_padding():
    (batch,) = pack([sample((1, 2, 3), (10, 11)), sample((1, 2, 3), (20, 21, 22))], max_tokens=100)
    assert batch.ids_N.tolist() == [1, 2, 3, 10, 11, 20, 21, 22]
    assert batch.positions_N.tolist() == [0, 1, 2, 3, 4, 3, 4, 5]
    # each completion's first token is predicted by the prompt's last, index 2
    assert batch.source_C.tolist() == [2, 3, 2, 5, 6]
    assert batch.target_C.tolist() == [10, 11, 20, 21, 22]
    assert batch.sample_C.tolist() == [0, 0, 1, 1, 1]
    assert batch.length_S.tolist() == [2, 3]
    np.testing.assert_allclose(batch.advantage_C, [1.0, 1.1, 2.0, 2.1, 2.2])
    np.testing.assert_array_equal(batch.engine_logprob_C, [-10, -11, -20, -21, -22])


def test_samples_of_one_prompt_meet_even_when_they_come_apart():
    (batch,) = pack([sample((1,), (10,)), sample((2,), (20,)), sample((1,), (11,))], max_tokens=100)
    assert [row.lengths for row in batch.rows] == [(1, 1), (1,)]
    assert batch.target_C.tolist() == [10, 11, 20]


def test_agents_never_share_a_batch():
    batches = pack([sample((1,), (10,)), sample((1,), (20,), agent="b")], max_tokens=100)
    assert [(b.agent, b.target_C.tolist()) for b in batches] == [("a", [10]), ("b", [20])]


@pytest.mark.parametrize("limit", [5, 6, 7, 9, 12, 100])
def test_no_batch_is_longer_than_the_limit_and_no_token_is_lost(limit):
    samples = [sample((1, 2), (10 * i, 10 * i + 1, 10 * i + 2)) for i in range(1, 5)] + [
        sample((3,), (99, 98))
    ]
    batches = pack(samples, max_tokens=limit)
    assert all(len(b.ids_N) <= limit for b in batches)
    assert sorted(t for b in batches for t in b.target_C.tolist()) == sorted(
        t for s in samples for t in s.completion_ids
    )


def test_a_sample_longer_than_the_limit_is_refused():
    with pytest.raises(ConfigError, match=r"update\.max_tokens is 3, and one sample has 4"):
        pack([sample((1, 2), (3, 4))], max_tokens=3)


def test_greedy_samples_are_scored_at_temperature_one():
    (batch,) = pack([sample((1,), (2, 3), temperature=0.0)], max_tokens=10)
    assert batch.temperature_C.tolist() == [1.0, 1.0]


def test_turns_without_a_score_are_left_out_and_credit_is_broadcast_over_a_turns_own_tokens():
    def turn(index, ids):
        return Turn(
            agent="a", role="solver", round=0, sample=index, adapter="a", adapter_version=0, prompt_ids=(1,),
            completion_ids=ids, engine_logprobs=(0.0,) * len(ids), temperature=1.0, text="", stop="eos",
        )  # fmt: skip

    group = Group(
        task=Task(id="t", question="q"),
        agent="a",
        role="solver",
        round=0,
        turns=(turn(0, (5, 6)), turn(1, (7,)), turn(2, (8, 9, 10))),
        scores=(Score(parts={}, total=1.0), None, Score(parts={}, total=0.0)),
    )
    found = from_groups([group], [np.array([0.5, np.nan, -0.5])])
    assert [s.completion_ids for s in found] == [(5, 6), (8, 9, 10)]
    assert [s.advantages for s in found] == [(0.5, 0.5), (-0.5, -0.5, -0.5)]
