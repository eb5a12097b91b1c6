"""The debate's exact transcript: who is asked, who saw what, what is cut, gold nowhere."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from seminar.agents.chat import Chat
from seminar.errors import ConfigError
from seminar.protocols.debate import Critique, Debate, DebateForm, Prompts, Question
from seminar.types import Task, Turn

TASK = Task(id="t", question="What is 2 + 3?", gold="GOLD-5", meta={"solution": "SECRET"})
SHORT = Prompts(question="{question}", opening=" [", answer="({number}:{answer})", closing="]")


def chat():
    """One token a character."""
    vocab = {chr(i): i for i in range(128)}
    raw = Tokenizer(models.WordLevel(vocab, unk_token="?"))
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}>"
    return Chat(tokenizer)


def form(**fields):
    return DebateForm(chat=chat(), **{"prompts": SHORT, "max_prompt_tokens": 1000, **fields})


def play(protocol, answer, task=TASK, seed=(7,)):
    """Drive a protocol by hand: `answer(ask, sample)` is what an agent says; returns the asks and turns by
    round."""
    game = protocol.play(task, seed=seed)
    rounds, answers = [], None
    while True:
        try:
            asks = next(game) if answers is None else game.send(answers)
        except StopIteration:
            return rounds
        answers = [[turn(ask, k, answer(ask, k)) for k in range(ask.samples)] for ask in asks]
        rounds.append((list(asks), [t for turns in answers for t in turns]))


def turn(ask, sample, text):
    return Turn(
        agent=ask.agent, role=ask.role, round=ask.round, sample=sample, draft=ask.draft, adapter=ask.agent,
        adapter_version=0, prompt_ids=(), completion_ids=(), engine_logprobs=(), temperature=1.0, text=text,
        stop="eos",
    )  # fmt: skip


def debate(rounds=2, generators=3, critics=3, **fields):
    return Debate(
        form=form(),
        generators=tuple(f"g{i}" for i in range(generators)),
        critics=tuple(f"c{i}" for i in range(critics)),
        rounds=rounds,
        **fields,
    )


def name(ask, _):
    return f"{ask.agent} in {ask.round}"


@pytest.mark.parametrize(("n", "m", "r"), [(3, 3, 2), (3, 3, 1), (2, 1, 4), (1, 5, 3)])
def test_a_debate_makes_n_plus_r_minus_one_times_m_calls(n, m, r):
    rounds = play(debate(rounds=r, generators=n, critics=m), name)
    assert sum(len(asks) for asks, _ in rounds) == n + (r - 1) * m


def test_generators_see_the_question_alone():
    asks, _ = play(debate(), name)[0]
    assert {ask.messages[0]["content"] for ask in asks} == {"What is 2 + 3?"}
    assert {ask.saw for ask in asks} == {()}


def test_critics_see_every_answer_of_the_round_before_and_of_no_other():
    rounds = play(debate(rounds=3), name)
    for ask in rounds[1][0]:
        assert sorted(ask.saw) == ["g0/r0/d0/s0", "g1/r0/d0/s0", "g2/r0/d0/s0"]
    for ask in rounds[2][0]:
        text = ask.messages[0]["content"]
        assert sorted(ask.saw) == ["c0/r1/d0/s0", "c1/r1/d0/s0", "c2/r1/d0/s0"]
        assert all(f"c{i} in 1" in text for i in range(3))
        assert "in 0" not in text


def test_the_prompt_quotes_answers_in_the_recorded_order():
    ask = play(debate(), name)[1][0][1]
    order = [key.split("/")[0] for key in ask.saw]
    assert (
        ask.messages[0]["content"]
        == "What is 2 + 3? [" + "".join(f"({k + 1}:{agent} in 0)" for k, agent in enumerate(order)) + "]"
    )


def test_order_is_the_same_for_one_seed_and_differs_between_critics_or_seeds():
    def orders(seed):
        return [ask.saw for ask in play(debate(critics=6), name, seed=seed)[1][0]]

    assert orders((7,)) == orders((7,))
    assert len(set(orders((7,)))) > 1
    assert orders((7,)) != orders((8,))


def test_gold_and_solution_are_in_no_prompt():
    for asks, _ in play(debate(rounds=3), name):
        for ask in asks:
            assert "GOLD" not in ask.messages[0]["content"]
            assert "SECRET" not in ask.messages[0]["content"]


def test_consensus_ends_the_debate_early_and_only_when_asked_for():
    def agreed(ask, _):
        return r"so \boxed{5}" if ask.agent != "g1" else r"thus \boxed{5.0}"

    assert len(play(debate(rounds=3, stop="consensus"), agreed)) == 1
    assert len(play(debate(rounds=3), agreed)) == 3


def test_no_consensus_where_an_answer_is_missing():
    def silent(ask, _):
        return r"\boxed{5}" if ask.agent != "g1" else "I do not know which of these it may be"

    assert len(play(debate(rounds=2, stop="consensus"), silent)) == 2


def test_visible_after_think_cuts_thinking_and_keeps_all_without_the_mark():
    shown = form().show(TASK, ["a lot of thought</think>five"], seed=(0,))
    assert shown.messages[0]["content"] == "What is 2 + 3? [(1:five)]"
    assert form().show(TASK, ["no mark"], seed=(0,)).messages[0]["content"] == "What is 2 + 3? [(1:no mark)]"


def test_visible_answer_shows_the_answer_alone_and_full_shows_all():
    text = r"thought</think>it is \boxed{5}"
    assert form(visible="answer").show(TASK, [text], seed=(0,)).messages[0]["content"].endswith("(1:5)]")
    assert form(visible="full").show(TASK, [text], seed=(0,)).messages[0]["content"].endswith(f"(1:{text})]")


def test_a_long_answer_keeps_its_tail():
    shown = form(visible_tokens=4).show(TASK, ["abcdefgh"], seed=(0,))
    assert shown.messages[0]["content"] == "What is 2 + 3? [(1:efgh)]"
    assert shown.cut == 1


def test_a_prompt_over_the_budget_loses_heads_of_answers_never_the_question_or_a_tail():
    # question 14 + " [" 2 + "]" 1 + ">" 1 = 18; two answers with "(n:)" 4 each = 26; 10 left: 5 each
    shown = form(max_prompt_tokens=36).show(TASK, ["0123456789", "abcdefghij"], seed=(0,))
    text = shown.messages[0]["content"]
    assert len(chat().encode(shown.messages)) <= 36
    assert text.startswith("What is 2 + 3? [")
    assert "56789)" in text
    assert "fghij)" in text
    assert shown.cut == 2


def test_a_critic_trains_on_one_prompt_for_all_samples():
    task = Task(id="t", question="q", gold="1", meta={"answers": ["x", "y"], "acc_g": 0.5})
    ((asks, turns),) = play(Critique(form=form(), critic="c0", samples=4), name, task=task)
    assert len(asks) == 1
    assert len(turns) == 4
    assert sorted(asks[0].saw) == ["answer-0", "answer-1"]


def test_a_generator_trains_on_the_question_alone():
    ((asks, turns),) = play(Question(form=form(), agent="g0", samples=3), name)
    assert [ask.messages[0]["content"] for ask in asks] == ["What is 2 + 3?"]
    assert [t.sample for t in turns] == [0, 1, 2]


def test_a_debate_without_critics_or_rounds_is_refused():
    with pytest.raises(ConfigError, match="0 critics, rounds 2"):
        debate(critics=0)
    with pytest.raises(ConfigError, match="rounds 0"):
        debate(rounds=0)
