"""A base model of a few thousand parameters and recipes that play every stage of both methods in seconds."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from seminar import build
from seminar import config as configuration
from seminar.agents.chat import Chat
from seminar.config_draft import DraftRlConfig
from seminar.protocols.draft_lessons import demonstrations
from seminar.tasks import generated


def write_model(folder: Path) -> None:
    """Save a two-layer Llama with random weights and a tokenizer of one token a character."""
    characters = ["\n", *map(chr, range(32, 127))]
    vocabulary = {
        name: i for i, name in enumerate(["<pad>", "<eos>", "<user>", "<agent>", "<unk>", *characters])
    }
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    raw.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<eos>",
        pad_token="<pad>",
        additional_special_tokens=["<user>", "<agent>"],
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<user>{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<agent>{% endif %}"
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, eos_token_id=1, pad_token_id=0,
                bos_token_id=None, max_position_embeddings=1024,
            )
        )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def recipe(model: Path, **changes: object) -> dict[str, object]:
    """A whole recipe as plain values; `changes` replace top-level sections."""
    training = {"steps": 3, "batch": 8, "group": 4, "lr": 1e-3, "temperature": 1.0, "validate_every": 2}
    return {
        "name": "small",
        "base": {"model": str(model), "threads": 1},
        "data": {
            "train": {"type": "generated", "kind": "arithmetic", "count": 40},
            "validation": 6,
            "evaluation": [{"type": "generated", "kind": "arithmetic", "count": 6}],
        },
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.1},
        "limits": {"completion": 10, "prompt": 200, "visible": 24},
        "debate": {
            "generators": 2,
            "critics": 2,
            "prompts": {
                "question": "{question}",
                "opening": "|",
                "answer": "{number}:{answer}|",
                "closing": "?",
            },
        },
        "warmup": {"steps": 3, "batch": 4},
        "generator": training,
        "critic": {**training, "advantage": "counterfactual"},
        "evaluation": {"samplings": [{"temperature": 1.0}], "repeats": 2, "completion": 10, "chunk": 5},
        "logging": {"checkpoint_every": 1, "episodes_every": 2},
        **changes,
    }


def draft_recipe(model: Path, **changes: object) -> dict[str, object]:
    """A whole recipe of DRAFT-RL; `changes` replace top-level sections."""
    return {
        "name": "small-drafts",
        "method": "draft_rl",
        "base": {"model": str(model), "threads": 1},
        "data": {
            "train": {"type": "generated", "kind": "arithmetic", "count": 30},
            "validation": 4,
            "evaluation": [{"type": "generated", "kind": "arithmetic", "count": 5}],
        },
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.1},
        "limits": {"prompt": 300, "draft": 24, "review": 16},
        "drafts": {
            "agents": 2,
            "drafts": 2,
            "prompts": {
                "form": "", "free_form": "", "question": "{question}", "earlier": "|{drafts}", "draft":
                "{draft}|", "hint": "{number}", "review": "{question}|{draft}?",
            },
        },
        "reward_model": {"layers": 1, "parameters": 16000, "max_tokens": 128, "steps": 2, "questions": 4,
        "lr": 1e-3}, "training": {"steps": 3, "tasks": 3, "lr": 1e-3, "ppo_on": "with_invalid",
        "validate_every": 2}, "warmup": {"steps": 3, "batch": 8, "lr": 1e-3, "criteria": [], "feedback":
        False}, "evaluation": {"repeats": 1, "chunk": 3},
        "logging": {"checkpoint_every": 1, "episodes_every": 2},
        **changes,
    }  # fmt: skip


def teach_forms(model: Path) -> None:
    """Train the whole small base, for a few seconds, to write drafts and reviews in form (and rarely
    right)."""
    config = configuration.parse(draft_recipe(model))
    assert isinstance(config, DraftRlConfig)
    base = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(model)
    chat = Chat(tokenizer)
    tasks = generated.problems("arithmetic", count=200, seed=1, split="warmup")
    texts = [
        [*chat.encode(one.messages), *chat.encode_text(one.text), tokenizer.eos_token_id]
        for one in demonstrations(build.drafts(config), tasks, seed=0, criteria=(), feedback=False)
    ]
    texts = [text for text in texts if len(text) < 80]
    rng = np.random.default_rng(0)
    optimizer = torch.optim.AdamW(base.parameters(), lr=1e-2)
    for _ in range(150):
        chosen = [torch.tensor(texts[i]) for i in rng.choice(len(texts), 16, replace=False)]
        ids = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=0)
        labels = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=-100)
        base(input_ids=ids, attention_mask=(labels != -100).long(), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    base.save_pretrained(model)
