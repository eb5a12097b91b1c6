"""A job -> runs of it by TRL's GRPOTrainer: the same prompts, model, adapter, group, loss and reward as ours.

python -m seminar.bench.peer_trl, with a job on standard input (see pipe.py); needs the extra `bench`. Where
TRL's defaults differ from ours, what makes it faster is taken: no gradient checkpointing, no saving.
"""

import sys
import tempfile
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import selective_log_softmax

from seminar.bench import scenarios
from seminar.bench.pipe import Clock, Pipe
from seminar.bench.scenarios import Job


class Timer(TrainerCallback):
    """Makes the trainer wait for the parent's word before each step but the first, and times the step."""

    def __init__(self, pipe: Pipe) -> None:
        """Nothing runs yet."""
        self.pipe = pipe
        self.clock = Clock(torch.device(pipe.job.device))
        self.began = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Wait; the warm-up step does not."""
        if state.global_step == 1:
            self.pipe.ready()
        if state.global_step >= 1 and not self.pipe.wait():
            sys.exit()
        self.clock = Clock(self.clock.device)
        self.began = self.clock.now()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Answer."""
        seconds = self.clock.now() - self.began
        s = self.pipe.job.scenario
        tokens = s.rows * (s.prompt_tokens + s.new_tokens)
        self.clock.add("update", seconds - self.clock.seconds["sample"], tokens=tokens)
        if state.global_step > 1:
            self.pipe.answer(self.clock, seconds=seconds)


def step(pipe: Pipe) -> None:
    """Train until the parent hangs up."""
    job, s = pipe.job, pipe.job.scenario
    timer = Timer(pipe)
    tokenizer = AutoTokenizer.from_pretrained(job.model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    for prompt in job.prompts:
        assert tokenizer(text=prompt.text)["input_ids"] == prompt.ids
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(job.model, dtype=getattr(torch, job.dtype)),
            reward_funcs=[_reward],
            args=_arguments(job, folder),
            train_dataset=Dataset.from_list([{"prompt": prompt.text} for prompt in job.prompts]),
            processing_class=tokenizer,
            peft_config=_lora(),
            callbacks=[timer],
        )
        plain = trainer.model.generate

        def timed(*args: Any, **options: Any) -> Any:
            with timer.clock.phase("sample", tokens=s.written):
                return plain(*args, **options)

        trainer.model.generate = timed
        trainer.train()


def score(pipe: Pipe) -> None:
    """Log-probabilities of given completions by a plain forward and TRL's own selection from the logits."""
    job, s = pipe.job, pipe.job.scenario
    base = AutoModelForCausalLM.from_pretrained(job.model, dtype=getattr(torch, job.dtype))
    model = get_peft_model(base, _lora()).eval().to(job.device)
    given = scenarios.given_ids(model.config.vocab_size, rows=s.rows, tokens=s.new_tokens)
    rows = [[*prompt.ids, *ids] for prompt, ids in zip(job.prompts, given, strict=True)]
    ids = torch.tensor(rows, device=job.device)

    def run(clock: Clock) -> float:
        with clock.phase("forward", tokens=ids.numel()), torch.no_grad():
            logits = model(ids, logits_to_keep=s.new_tokens + 1, use_cache=False).logits[:, :-1]
            selective_log_softmax(logits, ids[:, -s.new_tokens :])
        return clock.seconds["forward"]

    pipe.serve(run)


def _lora() -> LoraConfig:
    return LoraConfig(
        r=scenarios.RANK,
        lora_alpha=scenarios.ALPHA,
        lora_dropout=0.0,
        target_modules=list(scenarios.TARGETS),
        task_type="CAUSAL_LM",
    )


def _arguments(job: Job, folder: str) -> GRPOConfig:
    s = job.scenario
    rows = s.peer_rows or s.rows
    return GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=s.rows // rows,
        num_generations=s.group,
        max_completion_length=s.new_tokens,
        generation_kwargs={"min_new_tokens": s.new_tokens},
        temperature=1.0,
        beta=s.beta,
        epsilon=scenarios.CLIP,
        loss_type="grpo",
        learning_rate=scenarios.LR,
        lr_scheduler_type="constant",
        bf16=job.dtype == "bfloat16",
        gradient_checkpointing=False,
        use_cpu=job.device == "cpu",
        max_steps=1_000_000,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _reward(completions: list[str], **rest: Any) -> list[float]:
    return [scenarios.reward(text) for text in completions]


def main() -> None:
    """Serve the bench's parent."""
    pipe = Pipe()
    {"step": step, "score": score}[pipe.job.scenario.kind](pipe)


if __name__ == "__main__":
    main()
