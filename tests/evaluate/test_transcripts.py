"""The page of transcripts: what it shows, in which order, and that nothing a model wrote becomes markup."""

from html.parser import HTMLParser

import pytest
from scored_episodes import debate

from seminar.errors import RunError
from seminar.evaluate.transcripts import evaluation_rows, write_transcripts


def row(**changes):
    sample = {
        "text": "3 + 4 = 7", "stop": "eos", "tokens": 12, "reason": "correct",
        "parts": {"accuracy": 1.0, "length": -0.25}, "reward": 1.75, "advantage": -0.5,
    }  # fmt: skip
    sample |= {name: changes.pop(name) for name in list(changes) if name in sample}
    return {
        "stage": "critic-0", "step": 3, "task": "t1", "question": "3 + 4 = ?", "gold": "7",
        "agent": "critic-0", "role": "critic", "round": 1, "adapter": "critic-0", "adapter_version": 3,
        "baseline": 1 / 3, "saw": ["answer-1", "answer-0"], "samples": [sample], **changes,
    }  # fmt: skip


class Page(HTMLParser):
    """The page as (tag path, text) pairs; fails on tags that do not nest."""

    def __init__(self, path):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(path.read_text())
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1] != "style":
            self.texts.append((self.open[-1], data.strip()))

    def of(self, tag):
        return [text for name, text in self.texts if name == tag]


def page(tmp_path, rows):
    write_transcripts(rows, tmp_path / "page.html", title="Run <b>1")
    return Page(tmp_path / "page.html")


def test_a_sample_shows_reward_parts_advantage_reason_and_length(tmp_path):
    found = page(tmp_path, [row()])
    assert found.of("code") == [
        "correct | reward +1.750 (accuracy +1.00, length -0.25) | advantage -0.500 | 12 tokens, eos"
    ]


def test_a_row_shows_stage_step_round_agent_adapter_and_what_was_quoted(tmp_path):
    found = page(tmp_path, [row()])
    assert found.of("h3") == ["critic-0, step 3, round 1: critic-0"]
    assert found.of("small") == ["(adapter critic-0 version 3)"]
    assert "quoted: answer-1, answer-0; share of the quoted answers that are right: 0.33" in found.of("p")


def test_rows_are_grouped_by_problem_and_ordered_by_step_and_round(tmp_path):
    rows = [row(step=2, round=1), row(task="t2"), row(step=2, round=0), row(step=0)]
    found = page(tmp_path, rows)
    assert found.of("h2") == ["t1", "t2"]
    assert [text.partition(",")[2] for text in found.of("h3")] == [
        " step 0, round 1: critic-0", " step 2, round 0: critic-0", " step 2, round 1: critic-0",
        " step 3, round 1: critic-0",
    ]  # fmt: skip


def test_equal_ids_of_different_questions_are_two_problems(tmp_path):
    assert page(tmp_path, [row(), row(question="5 - 2 = ?")]).of("h2") == ["t1", "t1"]


@pytest.mark.parametrize("field", ["text", "question", "gold", "task", "agent", "stage", "adapter", "reason"])
def test_nothing_in_a_row_becomes_markup(tmp_path, field):
    evil = '</pre><script src="https://x">alert(1)</script>"\' onclick="x'
    found = page(tmp_path, [row(**{field: evil}, saw=[evil])])
    assert "script" not in [tag for tag, _ in found.tags]
    assert all("onclick" not in attributes for _, attributes in found.tags)
    assert evil in "".join(text for _, text in found.texts)


def test_the_page_may_load_nothing(tmp_path):
    contents = [attributes.get("content") for tag, attributes in page(tmp_path, []).tags if tag == "meta"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in contents


def test_the_title_is_text_too(tmp_path):
    assert page(tmp_path, []).of("title") == ["Run <b>1"]
    assert page(tmp_path, []).of("h1") == ["Run <b>1"]


def test_an_unscored_sample_shows_no_reward(tmp_path):
    found = page(tmp_path, [row(reason=None, parts=None, reward=None, advantage=None)])
    assert found.of("code") == ["ungraded | 12 tokens, eos"]


@pytest.mark.parametrize(("reason", "colour"), [("correct", "right"), ("truncated", "wrong"), (None, "")])
def test_the_border_tells_right_from_wrong(tmp_path, reason, colour):
    found = page(tmp_path, [row(reason=reason)])
    assert [attributes["class"] for tag, attributes in found.tags if tag == "details"] == [colour]


def test_a_played_debate_shows_every_turn_with_its_verdict(tmp_path):
    found = page(tmp_path, evaluation_rows([debate("7 -", "5", seed=4)], stage="trained"))
    assert found.of("h3") == [
        "trained, step 4, round 0: agent-0",
        "trained, step 4, round 0: agent-1",
        "trained, step 4, round 1: agent-0",
    ]
    assert [text.partition(" |")[0] for text in found.of("code")] == ["correct", "no_answer", "wrong"]


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path):
    assert "\\ud800" in page(tmp_path, [row(text="\ud800")]).of("pre")[1]


def test_a_folder_that_does_not_exist_is_a_run_error(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        write_transcripts([], tmp_path / "absent" / "page.html", title="T")
