from collections.abc import Callable
from dataclasses import replace

import pytest

from seminar.errors import ConfigError
from seminar.protocols.draft_prompts import STRATEGIES, TERSE, Prompts
from seminar.protocols.drafts import Drafts, public
from seminar.types import Ask, Task, Turn

TASK = Task(id="t", question="What is 2 + 3?", gold="5")
AGENTS = ("a", "b", "c")


def drive(
    protocol: Drafts, answer: Callable[[Ask], str], *, task: Task = TASK
) -> list[list[tuple[Ask, Turn]]]:
    """Play one task; the asks and turns of each round."""
    rounds = []
    play = protocol.play(task, seed=(0,))
    asks = next(play)
    while True:
        rounds.append([(ask, turn(ask, answer(ask))) for ask in asks])
        try:
            asks = play.send([[t] for _, t in rounds[-1]])
        except StopIteration:
            return rounds


def turn(ask: Ask, text: str) -> Turn:
    return Turn(
        agent=ask.agent,
        role=ask.role,
        round=ask.round,
        draft=ask.draft,
        adapter=ask.agent,
        adapter_version=0,
        prompt_ids=(1,),
        completion_ids=(2,),
        engine_logprobs=(0.0,),
        temperature=1.0 if ask.temperature is None else ask.temperature,
        text=text,
        stop="eos",
        saw=ask.saw,
        notes=ask.notes,
    )


def name(ask: Ask) -> str:
    """A valid draft that names its agent and number, or a review that names its reviewer."""
    if ask.role == "reviewer":
        return f"<review {ask.agent}.{ask.draft}>"
    return f"<{ask.agent}.{ask.round}>\n#### 5"


def prompts(rounds: list[list[tuple[Ask, Turn]]]) -> list[str]:
    return [message["content"] for asked in rounds for ask, _ in asked for message in ask.messages]


def test_three_agents_with_five_drafts_write_15_drafts_and_30_reviews() -> None:
    rounds = drive(Drafts(agents=AGENTS), name)
    assert [len(asked) for asked in rounds] == [3, 3, 3, 3, 3, 30]
    assert [{ask.role for ask, _ in asked} for asked in rounds] == [{"drafter"}] * 5 + [{"reviewer"}]
    assert [{ask.round for ask, _ in asked} for asked in rounds] == [{k} for k in range(6)]


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("drafts", [1, 3, 5, 7, 10])
def test_every_team_size_and_number_of_drafts_plays(agents: int, drafts: int) -> None:
    team = tuple("abcde"[:agents])
    rounds = drive(Drafts(agents=team, drafts=drafts, peers=agents > 1), name)
    # N agents, K drafts: N * K drafts, and (N - 1) * N * K reviews
    assert sum(len(asked) for asked in rounds[:drafts]) == agents * drafts
    assert sum(len(asked) for asked in rounds[drafts:]) == (agents - 1) * agents * drafts


def test_nobody_reviews_its_own_and_everybody_reviews_all_others_once() -> None:
    *_, reviews = drive(Drafts(agents=AGENTS), name)
    pairs = {(ask.agent, ask.notes["target"]) for ask, _ in reviews}
    drafts = {f"{agent}/r{k}/d{k}/s0" for agent in AGENTS for k in range(5)}
    assert pairs == {(r, d) for r in AGENTS for d in drafts if not d.startswith(r)}


def test_a_review_shows_exactly_its_target() -> None:
    *_, reviews = drive(Drafts(agents=AGENTS), name)
    for ask, _ in reviews:
        content = ask.messages[0]["content"]
        agent, number = ask.notes["target"].split("/")[0], ask.notes["target"].split("/")[1][1:]
        assert content.count("<") == 1
        assert content.endswith(f"Draft:\n<{agent}.{number}>\n#### 5")
        assert ask.saw == (ask.notes["target"],)


def test_draft_k_shows_exactly_the_earlier_drafts_of_its_own_agent_in_order() -> None:
    rounds = drive(Drafts(agents=AGENTS), name)
    for k, asked in enumerate(rounds[:5]):
        for ask, _ in asked:
            content = ask.messages[0]["content"]
            quoted = [part.split(">")[0] for part in content.split("<")[1:]]
            assert quoted == [f"{ask.agent}.{j}" for j in range(k)]
            assert ask.saw == tuple(f"{ask.agent}/r{j}/d{j}/s0" for j in range(k))


def test_summary_shows_the_answers_of_the_earlier_drafts_and_none_shows_nothing() -> None:
    third = drive(Drafts(agents=AGENTS, history="summary"), name)[2][0][0]
    assert "<a" not in third.messages[0]["content"]
    assert third.messages[0]["content"].count("\n5\n") == 2
    assert third.saw == ("a/r0/d0/s0", "a/r1/d1/s0")
    third = drive(Drafts(agents=AGENTS, history="none"), name)[2][0][0]
    assert "earlier" not in third.messages[0]["content"]
    assert third.saw == ()


def test_temperatures_rise_linearly_over_the_drafts() -> None:
    rounds = drive(Drafts(agents=AGENTS), name)
    assert [asked[0][0].temperature for asked in rounds] == [0.2, 0.35, 0.5, 0.65, 0.8, 0.2]
    assert drive(Drafts(agents=AGENTS, drafts=1), name)[0][0][0].temperature == 0.2


def test_strategies_take_turns_and_start_again() -> None:
    protocol = Drafts(agents=AGENTS, drafts=7)
    asks = [asked[0][0] for asked in drive(protocol, name)[:7]]
    names = [*STRATEGIES, *STRATEGIES][:7]
    assert [ask.notes["strategy"] for ask in asks] == names
    assert all(STRATEGIES[n] in ask.messages[0]["content"] for n, ask in zip(names, asks, strict=True))


def test_without_strategies_there_is_no_hint() -> None:
    protocol = Drafts(agents=("a",), peers=False, strategies={})
    assert drive(protocol, name)[0][0][0].messages == protocol.plain_prompt(TASK)


def test_the_plain_prompt_is_how_every_draft_prompt_begins() -> None:
    protocol = Drafts(agents=AGENTS)
    plain = protocol.plain_prompt(TASK)[0]["content"]
    assert plain.endswith("Problem: What is 2 + 3?")
    assert all(text.startswith(plain) for text in prompts(drive(protocol, name)[:5]))


def test_gold_tests_and_solution_reach_no_prompt() -> None:
    marker = "PLANTED-7431"
    task = replace(TASK, gold=marker, tests=marker, meta={"solution": marker, "more": [marker]})
    for protocol in (
        Drafts(agents=AGENTS),
        Drafts(agents=AGENTS, prompts=TERSE),
        Drafts(agents=AGENTS, cod=False),
    ):
        shown = prompts(drive(protocol, name, task=task))
        shown += [protocol.plain_prompt(task)[0]["content"], protocol.review_prompt(task, "x")[0]["content"]]
        assert len(shown) == 47
        assert not any(marker in text for text in shown)


def test_the_public_task_keeps_what_a_solver_may_see_and_nothing_else() -> None:
    task = Task(
        id="t", question="q", gold="g", domain="code", choices=("x",), tests="assert", meta={"solution": "s"}
    )
    assert public(task) == Task(id="t", question="q", domain="code", choices=("x",))


def test_worked_examples_of_other_tasks_stay_in_the_prompt() -> None:
    shot = {"question": "1 + 1?", "choices": ["2", "3"], "gold": "A"}
    task = replace(TASK, meta={"solution": "secret", "shots": [shot]})
    content = Drafts(agents=AGENTS).plain_prompt(task)[0]["content"]
    assert "1 + 1?\nA. 2\nB. 3\nAnswer: A" in content
    assert "secret" not in content


def test_a_prompt_from_a_task_with_gold_stops_the_program() -> None:
    with pytest.raises(AssertionError, match="gold"):
        Drafts(agents=AGENTS)._messages(TASK)


def test_without_the_chain_of_draft_form_long_steps_are_asked_for_and_valid() -> None:
    protocol = Drafts(agents=AGENTS, cod=False)
    ask = drive(protocol, name)[0][0][0]
    assert "words" not in ask.messages[0]["content"]
    long = turn(ask, "this step has quite a lot of words\n#### 5")
    assert protocol.read(TASK, long).valid
    assert Drafts(agents=AGENTS).read(TASK, long).fault == "long_step"


def test_the_answer_of_a_code_draft_may_have_many_lines() -> None:
    draft = turn(Ask(agent="a", role="drafter", round=0, messages=()), "add both\n####\ndef f():\n    pass")
    assert Drafts(agents=AGENTS).read(replace(TASK, domain="code"), draft).answer == "def f():\n    pass"
    assert Drafts(agents=AGENTS).read(TASK, draft).fault == "no_answer"


def test_only_invalid_drafts_are_asked_for_again_and_the_last_attempt_is_the_draft() -> None:
    protocol = Drafts(agents=("a", "b"), drafts=2, retries=2)

    def answer(ask: Ask) -> str:
        attempt = ask.notes.get("attempt", 0)
        good = ask.agent == "a" or (ask.round == 0 and attempt == 1)
        return f"<{ask.agent}.{ask.round}.{attempt}>" + ("\n#### 5" if good else "")

    rounds = drive(protocol, answer)
    # draft 1: a is valid at once, b at the second attempt; draft 2: b fails all three times; then 4 reviews
    assert [[ask.agent for ask, _ in asked] for asked in rounds[:-1]] == [
        ["a", "b"],
        ["b"],
        ["a", "b"],
        ["b"],
        ["b"],
    ]
    turns = [t for asked in rounds for _, t in asked]
    assert len({t.key for t in turns}) == len(turns)
    assert {key: t.text.split("\n")[0] for key, t in protocol.final(turns).items()} == {
        ("a", 0): "<a.0.0>",
        ("b", 0): "<b.0.1>",
        ("a", 1): "<a.1.0>",
        ("b", 1): "<b.1.2>",
    }
    assert "<b.0.1>" in rounds[2][1][0].messages[0]["content"]
    assert "<b.0.0>" not in rounds[2][1][0].messages[0]["content"]
    assert {ask.notes["target"] for ask, _ in rounds[-1]} == {t.key for t in protocol.final(turns).values()}


def test_braces_in_question_and_drafts_are_shown_as_they_are() -> None:
    task = replace(TASK, question="Solve {x} and {0}")
    content = Drafts(agents=AGENTS).review_prompt(task, "{draft} {}")[0]["content"]
    assert content.endswith("Problem: Solve {x} and {0}\n\nDraft:\n{draft} {}")


def test_the_terse_wording_adds_few_characters() -> None:
    protocol = Drafts(agents=AGENTS, prompts=TERSE, strategies={"first": "1", "second": "2"})
    assert protocol.plain_prompt(TASK)[0]["content"] == "What is 2 + 3?"
    assert (
        protocol.draft_prompt(TASK, ["2+3=5\n#### 5"])[0]["content"] == "What is 2 + 3?\n2+3=5\n#### 5\n\n2"
    )
    assert protocol.review_prompt(TASK, "2+3=5\n#### 5")[0]["content"] == "What is 2 + 3?\n2+3=5\n#### 5\nok?"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drafts": 0}, "protocol.drafts is 0; at least 1"),
        ({"agents": ("a",)}, "protocol.agents is a; at least 2"),
        ({"agents": (), "peers": False}, "protocol.agents is empty; at least 1"),
        ({"agents": ("a", "a")}, "protocol.agents is a, a"),
        ({"temperatures": (0.0, 0.8)}, "protocol.temperatures is 0.0 to 0.8"),
        ({"temperatures": (0.2, 2.1)}, "protocol.temperatures is 0.2 to 2.1"),
        ({"review_temperature": -1.0}, "protocol.review_temperature is -1.0"),
        ({"retries": -1}, "protocol.retries is -1"),
        ({"max_words": 0}, "protocol.max_words is 0"),
    ],
)
def test_what_cannot_be_played_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Drafts(**{"agents": AGENTS, **settings})


@pytest.mark.parametrize("template", ["{question} {gold}", "{question.gold}", "{}", "{question", "}"])
def test_a_template_with_an_unknown_placeholder_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match=r"prompts\.question"):
        Prompts(question=template)
