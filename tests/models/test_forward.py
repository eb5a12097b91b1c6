"""Our forward and backward against the model's own modules with plain PEFT: same numbers, same gradients."""

from functools import partial

import pytest
import torch
from torch.autograd import gradcheck
from transformers import PreTrainedModel

from conftest import MODELS
from seminar.learn.samples import pack
from seminar.models import attention, forward, packed
from seminar.models.fused import Linear
from seminar.models.policy import Policy
from seminar.types import Row, Sample

FAMILY = ["llama", "llama-biased", "mistral", "qwen2", "qwen3"]


def batches(lengths=(3, 1, 6, 4, 2)):
    """Two prompts, completions of several lengths, in one packed batch."""
    numbers = torch.Generator().manual_seed(3)

    def some(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(4, 260, (n,), generator=numbers).tolist())

    owners = [some(9)] * 3 + [some(1)] * 2
    made = [
        Sample(agent="first", prompt_ids=p, completion_ids=some(n), temperature=t, advantages=(1.0,) * n)
        for p, n, t in zip(owners, lengths, (1.0, 0.2, 0.7, 0.5, 1.0), strict=True)
    ]
    return pack(made, max_tokens=1000)


def plain(policy: Policy, monkeypatch: pytest.MonkeyPatch):
    """Let the same policy run by transformers' modules and PEFT's layers."""
    monkeypatch.setattr(policy, "fused", None)


def run(policy: Policy, batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probabilities and gradients of a weighted sum of them."""
    parameters = policy.parameters("first")
    with policy.active("first"):
        found = policy.logprobs(batch)
    (found * torch.arange(1, len(found) + 1)).sum().backward()
    grads = {name: tensor.grad.clone() for name, tensor in parameters.items()}
    for tensor in parameters.values():
        tensor.grad = None
    return found.detach(), grads


def masked(rows, *, device, dtype):
    """Attention as where kernels are fast and calls are dear."""
    return partial(packed.attend, layout=packed.layout(rows, device=device, dtype=dtype))


@pytest.mark.parametrize("look", [attention.attention_of, masked])
@pytest.mark.parametrize("family", FAMILY)
def test_log_probabilities_and_gradients_are_those_of_plain_peft(family, look, tiny_policy, monkeypatch):
    monkeypatch.setattr("seminar.models.policy.attention_of", look)
    policy = tiny_policy(family)
    (batch,) = batches()
    ours, our_grads = run(policy, batch)
    plain(policy, monkeypatch)
    theirs, their_grads = run(policy, batch)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert max(float(g.abs().max()) for g in their_grads.values()) > 0.1
    for name, grad in their_grads.items():
        torch.testing.assert_close(our_grads[name], grad, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("family", FAMILY)
def test_the_bare_base_speaks_where_no_adapter_is_active(family, tiny_policy, monkeypatch):
    policy = tiny_policy(family)
    (batch,) = batches()
    with torch.no_grad():
        ours = policy.logprobs(batch)
        plain(policy, monkeypatch)
        with policy.active(None):
            theirs = policy.logprobs(batch)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cells", [1, 2**22])
@pytest.mark.parametrize("long", [1, 4, 10**6])
@pytest.mark.parametrize("lengths", [(1,), (5, 5), (3, 1, 16, 17)])
def test_attention_piece_by_piece_is_that_under_the_whole_mask(cells, long, lengths, monkeypatch):
    monkeypatch.setattr(attention, "LONG", long)
    monkeypatch.setattr(attention, "CELLS", cells)
    first = 7 + sum(lengths)
    rows = (
        Row(start=0, prompt=7, lengths=lengths),
        Row(start=first, prompt=1, lengths=(2, 9)),
        Row(start=first + 12, prompt=0, lengths=(4, 6)),
    )
    count = first + 22
    torch.manual_seed(0)
    given = [torch.randn(count, heads, 8, requires_grad=True) for heads in (6, 2, 2)]
    weight = torch.randn(count, 6, 8)
    layout = packed.layout(rows, device=torch.device("cpu"), dtype=torch.float32)
    seen = []
    for out in (packed.attend(*given, layout), attention.attention(*given, attention.pieces(rows))):
        seen.append((out, *torch.autograd.grad((out * weight).sum(), given)))
    for theirs, ours in zip(*seen, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


def products():
    """Every product a layer makes, in float64, with a low-rank part, with and without dropout."""
    wide = {"dtype": torch.float64}
    norm = forward._Norm(torch.rand(6, **wide) + 0.5, 1e-5)
    for before, size in [(None, 6), (norm, 6), (forward._SwiGLU(), 12)]:
        for dropout in (0.0, 0.4):
            yield pytest.param(before, size, dropout, id=f"{type(before).__name__}-{dropout}")


@pytest.mark.parametrize(("before", "size", "dropout"), products())
def test_the_gradient_of_a_product_is_that_of_finite_differences(before, size, dropout):
    torch.manual_seed(0)
    wide = {"dtype": torch.float64}
    linear = Linear(torch.randn(5, 6, **wide), torch.randn(5, **wide), (5,))
    inputs = [torch.randn(*shape, **wide, requires_grad=True) for shape in ((4, size), (3, 6), (3, 5))]

    def product(x, down, up):
        torch.manual_seed(1)
        return forward._Product.apply(x, down, up, linear, before, dropout)

    assert gradcheck(product, inputs)


def test_dropout_falls_on_the_adapters_input_alone_and_keeps_its_mean():
    torch.manual_seed(0)
    linear = Linear(torch.zeros(2, 1), None, (2,))
    one = torch.ones(20_000, 1)
    down, up = torch.ones(1, 1), torch.ones(1, 2)
    y = forward._Product.apply(one, down, up, linear, None, 0.25)
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    assert float(y.mean()) == pytest.approx(1.0, abs=0.02)


def test_fewer_bytes_are_kept_for_the_backward_pass_than_by_the_models_modules(tiny_policy, monkeypatch):
    policy = tiny_policy("llama", dtype=torch.bfloat16)
    (batch,) = batches(lengths=(60, 60, 60, 60, 60))

    def kept() -> int:
        storages: dict[int, int] = {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        known = {p.untyped_storage().data_ptr() for p in policy.base.parameters()}
        with policy.active("first"), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            found = policy.hidden(batch)
        assert found.requires_grad
        return sum(size for place, size in storages.items() if place not in known)

    ours = kept()
    plain(policy, monkeypatch)
    assert ours < 0.6 * kept()


def test_the_models_own_weights_are_slices_of_the_fused_ones(tiny_policy):
    policy = tiny_policy("qwen2")
    assert policy.fused is not None
    layer: PreTrainedModel = policy.base.model.layers[1]
    for linear, index in ((layer.self_attn.q_proj, 0), (layer.self_attn.v_proj, 2)):
        own, whole = linear.base_layer.weight, policy.fused.layers[1].qkv
        assert own.untyped_storage().data_ptr() == whole.weight.untyped_storage().data_ptr()
        assert own.shape[0] == whole.sizes[index]


def test_every_family_of_the_tests_is_tried():
    assert {*FAMILY} == {*MODELS} - {"gpt2"}
