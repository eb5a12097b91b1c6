"""Facts about the shipped folder `tiny`, and that the script which made it is deterministic."""

import hashlib
import importlib.util
import json
import random
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from seminar.agents.chat import Chat
from seminar.models.embedded import TINY
from seminar.protocols.debate import DebateForm
from seminar.tasks.generated import problems

LESSONS = "b164a5233fc0fe61a402d915976a0f04d4952b83457050cb31175312fe92091b"
SCRIPT = Path(__file__).parents[2] / "scripts" / "train_tiny.py"
spec = importlib.util.spec_from_file_location("train_tiny", SCRIPT)
train_tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train_tiny)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY)


@pytest.fixture(scope="module")
def form(tokenizer):
    return DebateForm(chat=Chat(tokenizer), prompts=train_tiny.PROMPTS, visible=train_tiny.VISIBLE)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(TINY)


def test_it_has_about_a_million_parameters_in_at_most_four_megabytes(model):
    assert sum(p.numel() for p in model.parameters()) == 964_608
    assert sum(path.stat().st_size for path in TINY.iterdir()) <= 4_000_000
    assert model.dtype == torch.float32


def test_a_character_is_a_token_and_so_is_the_opening_of_the_box(form):
    assert len(form.chat.encode_text("7*3=21 \\boxed{21}")) == 7 + 1 + 3
    assert form.chat.decode(form.chat.encode_text("a B\n~\\boxed{1}")) == "a B\n~\\boxed{1}"


def test_a_character_it_does_not_know_is_one_unknown_token(tokenizer):
    assert tokenizer("1é2")["input_ids"] == tokenizer.convert_tokens_to_ids(["1", "<|unk|>", "2"])


def test_the_chat_template_opens_the_answer(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "1+2"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|user|>1+2<|end|><|assistant|>"


def test_a_debate_prompt_with_three_answers_is_short(form):
    task = problems("plus_product", count=1, seed=0, split="train")[0]
    shown = form.show(task, ["\\boxed{100}", "", "5+5=10 \\boxed{101}"], seed=(0,))
    text = shown.messages[0]["content"]
    assert sorted(text.split("\n")[1:]) == sorted(
        f"A{place + 1}: {('100', '', '101')[index]}" for place, index in enumerate(shown.order)
    )
    assert len(form.chat.encode(shown.messages)) < 50


def test_its_accuracy_on_unseen_problems_is_what_its_card_says_and_leaves_room_to_learn(model, form):
    said = [float(x) / 100 for x in re.findall(r"\| ([\d.]+) % \|", (TINY / "README.md").read_text())]
    measured = train_tiny.measure(model.eval(), form)
    # 400 problems: another processor rounds otherwise, which changes single answers.
    assert said == pytest.approx(
        [measured.sampled, measured.greedy, measured.majority, measured.critic], abs=0.02
    )
    assert all(0.2 < share < 0.4 for share in said)


def test_a_fault_is_one_wrong_result_or_one_wrong_sign_that_is_carried_on(form):
    for seed, task in enumerate(problems("arithmetic", count=400, seed=3, split="warmup")):
        right = re.findall(r"(\d+)([-+*])(\d+)=(\d+)", task.meta["solution"])
        text = train_tiny.with_fault(task, random.Random(seed))
        wrong = re.findall(r"(\d+)([-+*])(\d+)=(\d+)", text)
        false = sum(eval(a + sign + b) != int(said) for a, sign, b, said in wrong)
        signs = sum(one[1] != other[1] for one, other in zip(right, wrong, strict=True))
        assert false + signs == 1, text
        assert wrong[0][3] in wrong[1][:3:2], text
        assert text.endswith(f"\\boxed{{{wrong[1][3]}}}")


def test_the_lessons_are_still_those_the_shipped_weights_were_trained_on(form):
    # Where this fails, the weights are of another script: train them again, then put the new hash here.
    school = train_tiny.School(form, train_tiny.Settings())
    lessons = repr([school.lessons(step) for step in range(20)])
    assert hashlib.sha256(lessons.encode()).hexdigest() == LESSONS


def test_no_lesson_is_about_an_evaluation_problem(form):
    school = train_tiny.School(form, train_tiny.Settings())
    lessons = {
        form.chat.decode(prompt).split("\n")[0] for step in range(30) for prompt, _ in school.lessons(step)
    }
    unseen = {t.question for t in problems("arithmetic", count=1200, seed=1, split="evaluation")}
    assert len(lessons) > 500
    assert not lessons & unseen


def test_the_script_gives_the_same_weights_twice(tokenizer, form):
    settings = train_tiny.Settings(steps=3, batch=4)
    made = []
    for _ in range(2):
        model = train_tiny.make_model(tokenizer, seed=0)
        train_tiny.train(model, train_tiny.School(form, settings), settings)
        made.append(model.state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


def test_the_shipped_tokenizer_is_the_scripts(tokenizer):
    made = train_tiny.make_tokenizer()
    assert json.loads(made.backend_tokenizer.to_str()) == json.loads(tokenizer.backend_tokenizer.to_str())
    assert made.chat_template == tokenizer.chat_template
