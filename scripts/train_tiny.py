"""Seed -> the folder src/seminar/models/tiny: a laboratory model for arithmetic, its tokenizer and its card.

Run: python scripts/train_tiny.py. Two runs on one machine give the same bytes.
"""

import argparse
import math
import operator
import random
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from seminar.agents.chat import Chat
from seminar.atomic import atomic_dir
from seminar.models.embedded import TINY
from seminar.protocols.debate import DebateForm, Prompts
from seminar.tasks.generated import problems
from seminar.tasks.maths import extract_answer
from seminar.types import Task

PROMPTS = Prompts(question="{question}", opening="", answer="\nA{number}: {answer}", closing="")
"""The terse wording that the model is taught; recipes for it must use the same."""
VISIBLE = "answer"
"""Critics see the others' results alone."""

KINDS = ("plus_product", "product_minus", "three_terms", "bracket", "three_terms")
"""Kinds in the proportion in which they are taught; sums of two-digit numbers take longest."""
POOL = 500
"""Problems of a kind in one turn of KINDS, all from the split `warmup`."""
BOX = "\\boxed{"
EQUATION = re.compile(r"(\d+)([-+*])(\d+)=")
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
SPECIAL = ("<|pad|>", "<|unk|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the model is trained."""

    steps: int = 1800
    batch: int = 64
    """Lessons a step."""
    lr: float = 2e-3
    """Highest learning rate; 50 steps up, cosine down to a twentieth."""
    debates: float = 0.3
    """Share of the steps whose lessons are debate prompts."""
    hasty: float = 0.5
    """Share of the lessons that answer at once: a guess, or in a debate the copy of a quoted answer. What a
    reward can teach is to work the answer out."""
    guesses: float = 0.2
    """Share of the guesses that are right."""
    slips: float = 0.1
    """Share of the worked solutions with a slip."""
    right: float = 0.5
    """Share of the quoted answers that are right."""
    seed: int = 0
    threads: int = 1


class Measured(NamedTuple):
    """Accuracies on unseen problems."""

    tasks: int
    sampled: float
    """One answer at temperature 1."""
    greedy: float
    majority: float
    """Majority of three answers at temperature 1; a tie goes to the first."""
    critic: float
    """One answer at temperature 1 to the debate prompt with those three."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a printable ASCII character, and one for the opening of the box."""
    characters = [c for c in string.printable if c.isprintable() or c == "\n"]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, BOX, *characters])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\\boxed\{|[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL[3:]),
        model_max_length=512,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> LlamaForCausalLM:
    """A fresh Llama with four layers."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=448,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config)


class School:
    """Draws lessons: prompt ids and target ids, from the split `warmup` alone."""

    def __init__(self, form: DebateForm, settings: Settings) -> None:
        """Make the problems."""
        self._form = form
        self._settings = settings
        self._tasks = [t for k in KINDS for t in problems(k, count=POOL, seed=settings.seed, split="warmup")]

    def lessons(self, step: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The lessons of a step: single questions, or debate prompts on a share of the steps."""
        rng = random.Random(f"{self._settings.seed}/{step}")
        debate = rng.random() < self._settings.debates
        return [self._lesson(rng, debate=debate) for _ in range(self._settings.batch)]

    def _lesson(self, rng: random.Random, *, debate: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        task = rng.choice(self._tasks)
        messages = self._form.question(task)
        target = written(task, rng, right=rng.random() >= self._settings.slips)
        hasty = written(task, rng, right=rng.random() < self._settings.guesses)
        if debate:
            answers = [written(task, rng, right=rng.random() < self._settings.right) for _ in range(3)]
            messages = self._form.show(task, answers, seed=(rng.getrandbits(32),)).messages
            hasty = rng.choice(answers)
        if rng.random() < self._settings.hasty:
            target = BOX + hasty.rpartition(BOX)[2]
        eos = self._form.chat.encode_text("<|end|>")
        return self._form.chat.encode(messages), self._form.chat.encode_text(target) + eos


def written(task: Task, rng: random.Random, *, right: bool) -> str:
    """The worked solution of a task, or one with a fault."""
    if right:
        return str(task.meta["solution"])
    return with_fault(task, random.Random(f"{rng.getrandbits(32)}/{task.id}"))


def with_fault(task: Task, rng: random.Random) -> str:
    """The worked solution with a result that is off by 1, 2 or 10, or a wrong sign; it goes on from there."""
    first, second = (Step(int(a), sign, int(b)) for a, sign, b in EQUATION.findall(task.meta["solution"]))
    faulty = [
        f"{start} {end} {BOX}{end.result}}}"
        for start in faults_of(first, rng)
        if (end := second.after(start.result, instead_of=first.result)).result >= 0
    ]
    faulty += [f"{first} {end} {BOX}{end.result}}}" for end in faults_of(second, rng)]
    return rng.choice(faulty)


class Step(NamedTuple):
    """One equation of a worked solution."""

    left: int
    sign: str
    right: int
    said: int | None = None
    """A wrong result; None: the right one."""

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.left}{self.sign}{self.right}={self.result}"

    @property
    def result(self) -> int:
        """The result that is written."""
        return SIGNS[self.sign](self.left, self.right) if self.said is None else self.said

    def after(self, new: int, *, instead_of: int) -> "Step":
        """The step with another result of the step before it."""
        return self._replace(left=new) if self.left == instead_of else self._replace(right=new)


def faults_of(step: Step, rng: random.Random) -> list[Step]:
    """The step with a slip, and with a wrong sign unless that gives the same or less than nothing."""
    near = [n for d in (1, 2, 10) for n in (step.result - d, step.result + d) if n >= 0]
    other = step._replace(sign="-" if step.sign == "+" else "+")
    return [step._replace(said=rng.choice(near)), *([other] if 0 <= other.result != step.result else [])]


def train(model: LlamaForCausalLM, school: School, settings: Settings) -> None:
    """Next-token loss on the targets; AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(settings.steps):
        ids_BT, labels_BT = batch_of(school.lessons(step), pad=model.config.pad_token_id)
        logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
        loss = cross_entropy(logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten())
        for group in optimizer.param_groups:
            decay = 0.05 + 0.95 * (1 + math.cos(math.pi * step / settings.steps)) / 2
            group["lr"] = settings.lr * min(1.0, (step + 1) / 50) * decay
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{settings.steps} loss {loss.item():.3f}", flush=True)


def batch_of(
    lessons: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], *, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels [B, T], padded on the right; labels are -100 outside the targets."""
    longest = max(len(prompt) + len(target) for prompt, target in lessons)
    ids_BT = torch.full((len(lessons), longest), pad)
    labels_BT = torch.full((len(lessons), longest), -100)
    for ids, labels, (prompt, target) in zip(ids_BT, labels_BT, lessons, strict=True):
        end = len(prompt) + len(target)
        ids[:end] = torch.tensor(prompt + target)
        labels[len(prompt) : end] = torch.tensor(target)
    return ids_BT, labels_BT


def measure(model: LlamaForCausalLM, form: DebateForm, *, count: int = 400) -> Measured:
    """Accuracy on problems of the split `evaluation`, which no lesson comes from."""
    tasks = problems("arithmetic", count=count, seed=1, split="evaluation")
    questions = [form.chat.encode(form.question(task)) for task in tasks]
    rounds = [answer(model, form, questions, seed=seed) for seed in (1, 2, 3)]
    shown = [
        form.show(t, texts, seed=(i,)).messages
        for i, (t, *texts) in enumerate(zip(tasks, *rounds, strict=True))
    ]
    critics = answer(model, form, [form.chat.encode(messages) for messages in shown], seed=4)
    votes = [Counter(map(extract_answer, texts)).most_common(1)[0][0] for texts in zip(*rounds, strict=True)]
    return Measured(
        tasks=count,
        sampled=sum(accuracy(tasks, [extract_answer(text) for text in texts]) for texts in rounds) / 3,
        greedy=accuracy(tasks, [extract_answer(text) for text in answer(model, form, questions, seed=None)]),
        majority=accuracy(tasks, votes),
        critic=accuracy(tasks, [extract_answer(text) for text in critics]),
    )


def accuracy(tasks: Sequence[Task], answers: Sequence[str | None]) -> float:
    """Share of right answers."""
    return sum(task.gold == answer for task, answer in zip(tasks, answers, strict=True)) / len(tasks)


def answer(
    model: LlamaForCausalLM, form: DebateForm, prompts: Sequence[Sequence[int]], *, seed: int | None
) -> list[str]:
    """One completion a prompt at temperature 1; greedy without a seed."""
    longest = max(map(len, prompts))
    pad = model.config.pad_token_id
    ids_BT = torch.tensor([[pad] * (longest - len(p)) + list(p) for p in prompts])
    if seed is not None:
        torch.manual_seed(seed)
    out_BT = model.generate(
        ids_BT,
        attention_mask=(ids_BT != pad).long(),
        max_new_tokens=40,
        **({"do_sample": False} if seed is None else {"do_sample": True, "top_k": 0}),
    )
    return [form.chat.decode(ids) for ids in out_BT[:, longest:].tolist()]


def card(model: LlamaForCausalLM, settings: Settings, measured: Measured) -> str:
    """The model card: `tiny_card.md` with the numbers of this run."""
    percent = {name: f"{100 * value:.1f} %" for name, value in measured._asdict().items() if name != "tasks"}
    shares = {name: f"{getattr(settings, name):.0%}" for name in ("hasty", "guesses", "right", "slips")}
    return (
        (Path(__file__).parent / "tiny_card.md")
        .read_text()
        .format(
            parameters=f"{model.num_parameters():,}",
            seed=settings.seed,
            steps=f"{settings.steps:,}",
            batch=settings.batch,
            tasks=measured.tasks,
            **percent,
            **shares,
        )
    )


def main() -> None:
    """Train, measure, write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TINY)
    out = parser.parse_args().out
    settings = Settings()
    torch.set_num_threads(settings.threads)
    tokenizer = make_tokenizer()
    form = DebateForm(chat=Chat(tokenizer), prompts=PROMPTS, visible=VISIBLE)
    model = make_model(tokenizer, seed=settings.seed)
    train(model, School(form, settings), settings)
    model.eval()
    measured = measure(model, form)
    with atomic_dir(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(card(model, settings, measured))
    print(f"{out}: {measured}")


if __name__ == "__main__":
    main()
