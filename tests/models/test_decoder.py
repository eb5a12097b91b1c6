"""Fused weights, their storage, and attention memory under rows that come and go."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from conftest import MODELS, SIZES
from seminar.errors import ModelError
from seminar.models import fused, kv
from seminar.models.decoder import FusedDecoder
from seminar.models.fused import fuse, misfit, packed
from seminar.models.kv import Room, fill_holes
from seminar.models.lora import LoraPair


def model(**changes):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(**{**SIZES, **changes})).eval()


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def test_without_packing_the_base_exists_once_and_still_computes_the_same(monkeypatch):
    monkeypatch.setattr(fused, "PACK_LIMIT_BYTES", 0)
    base = model()
    before = logits(base, [5, 6, 7])
    whole = fuse(base)
    attention, mlp = base.model.layers[0].self_attn, base.model.layers[0].mlp
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj):
        assert (
            linear.weight.untyped_storage().data_ptr()
            == whole.layers[0].qkv.weight.untyped_storage().data_ptr()
        )
    for linear in (mlp.gate_proj, mlp.up_proj):
        assert (
            linear.weight.untyped_storage().data_ptr()
            == whole.layers[0].gate_up.weight.untyped_storage().data_ptr()
        )
    assert whole.layers[0].o.weight.data_ptr() == attention.o_proj.weight.data_ptr()
    assert whole.head.weight.data_ptr() == base.lm_head.weight.data_ptr()
    torch.testing.assert_close(logits(base, [5, 6, 7]), before, rtol=0, atol=1e-6)


def test_packing_leaves_the_parameters_of_the_model_alone():
    base = model()
    whole = fuse(base)
    places = [p.data_ptr() for p in base.parameters()]
    assert packed(whole).packed
    assert not whole.packed
    assert [p.data_ptr() for p in base.parameters()] == places


def test_a_base_above_the_limit_is_not_copied(monkeypatch):
    whole = fuse(model())
    linears = [whole.head, *(getattr(layer, name) for layer in whole.layers for name in fused.GROUPS)]
    size = sum(linear.weight.numel() * 4 for linear in linears)
    monkeypatch.setattr(fused, "PACK_LIMIT_BYTES", size - 1)
    assert not packed(whole).packed
    monkeypatch.setattr(fused, "PACK_LIMIT_BYTES", size)
    assert packed(whole).packed


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (lambda: MODELS["gpt2"](), "model_type gpt2 is not of the Llama family"),
        (lambda: model(hidden_act="gelu"), "its activation is gelu"),
        (lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)), "it has sliding windows"),
        (
            lambda: model(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
            "its rotation changes with length (dynamic)",
        ),
    ],
)
def test_models_that_do_not_fit_are_told_apart(base, words):
    assert misfit(base()) == words


def test_mixed_types_do_not_fit():
    base = model()
    base.model.layers[1].mlp.up_proj.bfloat16()
    assert misfit(base) == "its linear layers are quantised or of mixed types"


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_the_family_fits(family):
    assert misfit(MODELS[family]()) is None


def test_an_adapter_on_other_layers_is_refused():
    pairs = {"lm_head": LoraPair(torch.zeros(2, 32), torch.zeros(260, 2), 1.0)}
    with pytest.raises(ModelError, match="adapter 'x' adapts lm_head; self_attn"):
        FusedDecoder(fuse(model())).snapshot(pairs, name="x")


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 32},
        {
            "rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
        },
    ],
)  # fmt: skip
def test_scaled_rotations_are_the_models_own(rope):
    base = model(rope_parameters=rope)
    check_by_steps(base, [[5, 6, 7, 8, 9]], [1], [[10, 11, 12]])


def check_by_steps(base, prompts, samples, written):
    """Feed tokens step by step; every logit is that of the plain forward of the row alone."""
    owner = [p for p, count in zip(prompts, samples, strict=True) for _ in range(count)]
    room = Room(prompts=len(prompts), prompt_tokens=max(map(len, prompts)), rows=len(owner), tokens=8)
    with FusedDecoder(fuse(base)).open(None, None, room=room) as rows:
        seen = [rows.admit(prompts, samples)]
        seen += [rows.step([row[t] for row in written]) for t in range(len(written[0]))]
    for index, prompt in enumerate(prompts):
        torch.testing.assert_close(seen[0][index], logits(base, prompt)[-1], rtol=0, atol=1e-5)
    for index, (prompt, row) in enumerate(zip(owner, written, strict=True)):
        alone = logits(base, [*prompt, *row])[len(prompt) :]
        mine = torch.stack([step[index] for step in seen[1:]])
        torch.testing.assert_close(mine, alone, rtol=0, atol=1e-5)


def test_prompts_of_any_length_with_any_number_of_samples_read_as_alone():
    prompts = [[5], [6, 7, 8, 9, 10, 11], [12, 13]]
    numbers = torch.randint(4, 260, (6, 4), generator=torch.Generator().manual_seed(0)).tolist()
    check_by_steps(model(), prompts, [2, 1, 3], numbers)


def test_rows_that_leave_and_prompts_that_join_do_not_disturb_the_others(monkeypatch):
    monkeypatch.setattr(kv, "FIRST_COLUMNS", 2)
    base = model()
    numbers = torch.Generator().manual_seed(1)
    token = lambda: int(torch.randint(4, 260, (), generator=numbers))  # noqa: E731
    prompts = [[token() for _ in range(1 + (5 * i) % 7)] for i in range(12)]
    rows_left = {0: 3, 4: 1, 5: 2, 9: 9}
    live: list[list[int]] = []
    with FusedDecoder(fuse(base)).open(
        None, None, room=Room(prompts=6, prompt_tokens=7, rows=6, tokens=24)
    ) as rows:
        for step in range(24):
            if step % 2 == 0 and len(live) <= 4 and prompts:
                prompt = prompts.pop()
                rows.admit([prompt], [2])
                live += [[*prompt], [*prompt]]
            for row in live:
                row.append(token())
            got = rows.step([row[-1] for row in live])
            for row, mine in zip(live, got, strict=True):
                torch.testing.assert_close(mine, logits(base, row)[-1], rtol=0, atol=1e-5)
            if step % 3 == 2:
                gone = {rows_left.get(step % 10, step) % len(live), 0 if step % 2 else len(live) - 1}
                order = fill_holes(len(live), alive=set(range(len(live))) - gone)
                rows.keep(order)
                live = [live[i] for i in order]


def test_holes_are_filled_from_the_end():
    # places 0 and 2 of five are free: the last row fills one, the row before it stays where it can
    assert fill_holes(5, alive={1, 3, 4}) == [4, 1, 3]
    assert fill_holes(3, alive={0, 1, 2}) == [0, 1, 2]
    assert fill_holes(3, alive=set()) == []
