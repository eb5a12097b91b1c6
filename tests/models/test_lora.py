"""Our forward of an adapted layer against PEFT's own, in value and gradient."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear
from torch import nn

from seminar.models.lora import speed_up


def layer(*, bias, dtype=torch.float32, dropout=0.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 20, bias=bias, dtype=dtype))
    made = get_peft_model(model, LoraConfig(r=3, lora_alpha=6, lora_dropout=dropout, target_modules=["0"]))
    found = made.base_model.model[0]
    found.lora_B["default"].weight.data.normal_()
    return found


def run(adapted, x, upstream):
    x = x.clone().requires_grad_()
    for t in (adapted.lora_A["default"].weight, adapted.lora_B["default"].weight):
        t.grad = None
    y = adapted(x)
    (y.float() * upstream).sum().backward()
    return y, x.grad, adapted.lora_A["default"].weight.grad, adapted.lora_B["default"].weight.grad


@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradients_equal_pefts(bias):
    adapted = layer(bias=bias)
    g = torch.Generator().manual_seed(1)
    x, upstream = torch.randn(2, 5, 12, generator=g), torch.randn(2, 5, 20, generator=g)
    theirs = run(adapted, x, upstream)
    speed_up(adapted)
    for a, b in zip(run(adapted, x, upstream), theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_bfloat16_base_keeps_float32_gradients_close_to_pefts():
    adapted = layer(bias=False, dtype=torch.bfloat16)
    g = torch.Generator().manual_seed(1)
    x, upstream = torch.randn(7, 12, generator=g).bfloat16(), torch.randn(7, 20, generator=g)
    theirs = run(adapted, x, upstream)
    speed_up(adapted)
    ours = run(adapted, x, upstream)
    assert ours[2].dtype == torch.float32
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=0.05, atol=0.1)


def test_dropout_gradient_equals_a_difference_quotient_under_the_same_mask():
    adapted = layer(bias=False, dropout=0.5).double().train()
    speed_up(adapted)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(4, 12, generator=g, dtype=torch.float64).requires_grad_()

    def loss():
        with torch.random.fork_rng():
            torch.manual_seed(7)
            return adapted(x).pow(2).sum()

    loss().backward()
    for t in (x, adapted.lora_A["default"].weight, adapted.lora_B["default"].weight):
        flat, grad = t.data.view(-1), t.grad.view(-1)
        for index in (0, 5, 11):
            old = float(flat[index])
            flat[index] = old + 1e-6
            up = float(loss())
            flat[index] = old - 1e-6
            down = float(loss())
            flat[index] = old
            assert (up - down) / 2e-6 == pytest.approx(float(grad[index]), rel=1e-4, abs=1e-6)


def test_a_switched_off_adapter_is_the_base():
    adapted = layer(bias=False)
    speed_up(adapted)
    x = torch.ones(1, 12)
    adapted.enable_adapters(False)
    assert torch.equal(adapted(x), adapted.base_layer(x))
    assert isinstance(adapted, Linear)
