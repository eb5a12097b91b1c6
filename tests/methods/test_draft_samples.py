"""Reviews as samples: whose, of which drafts, with which reward."""

from seminar.methods.draft_samples import reviews
from seminar.rewards.reading import Candidate, Reading
from seminar.tasks.draft_form import parse_draft
from seminar.types import Task, Turn, Verdict

RIGHT, WRONG = Verdict(correct=True, reason="correct"), Verdict(correct=False, reason="wrong")


def turn(agent, role, text, *, draft=0, target=None):
    return Turn(
        agent=agent, role=role, round=0 if role == "drafter" else 2, draft=draft, adapter=agent,
        adapter_version=0, prompt_ids=(1,), completion_ids=(7, 8, 9), engine_logprobs=(-1.0, -1.0, -1.0),
        temperature=0.2, text=text, stop="eos", notes={"target": target},
    )  # fmt: skip


def reading(*, draft="1+1=2\n#### 2"):
    drafts = [turn("a", "drafter", draft), turn("a", "drafter", draft, draft=1)]
    said = [
        turn(name, "reviewer", '{"overall": 0.9}', draft=k, target=drafts[k].key)
        for name in ("b", "c")
        for k in (0, 1)
    ]
    candidates = tuple(Candidate(turn=t, draft=parse_draft(t.text), reviews=(), peer=None) for t in drafts)
    return Reading(task=Task(id="t", question="?"), candidates=candidates, reviews=tuple(said))


def test_an_agent_learns_from_its_own_reviews_each_one_step():
    found = reviews("b", [reading()], [{"a/r0/d0/s0": RIGHT, "a/r0/d1/s0": WRONG}], chat=None, unit="step")
    assert [round(one.reward, 9) for one in found] == [0.4, -0.4]
    assert {one.sample.agent for one in found} == {"b"}
    assert [one.units_T.tolist() for one in found] == [[0, 0, 0]] * 2


def test_what_was_not_verified_and_a_question_without_a_valid_draft_teach_nothing():
    unusable = Verdict(correct=False, reason="unusable_gold")
    assert reviews("b", [reading()], [{"a/r0/d0/s0": unusable}], chat=None, unit="token") == []
    broken = reading(draft="2")
    assert reviews("b", [broken], [{"a/r0/d0/s0": WRONG}], chat=None, unit="token") == []
