"""The optimizer of an agent after a restart."""

import torch

from seminar.train.update import optimizer_state, restore_optimizer


def adam(*, device="cpu"):
    weight = torch.nn.Parameter(torch.zeros(2, device=device))
    return weight, torch.optim.AdamW([weight])


def stepped(times):
    weight, optimizer = adam()
    for _ in range(times):
        weight.grad = torch.ones(2)
        optimizer.step()
    return weight, optimizer


def test_restored_moments_lie_beside_their_parameter_and_steps_on_the_cpu():
    weight, optimizer = stepped(3)
    state = optimizer_state(optimizer, {"w": weight})
    assert state.keys() == {"w.step", "w.exp_avg", "w.exp_avg_sq"}
    other, fresh = adam(device="meta")
    restore_optimizer(fresh, {"w": other}, state)
    assert {name: t.device.type for name, t in fresh.state[other].items()} == {
        "step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta"
    }  # fmt: skip


def test_what_an_optimizer_had_before_it_was_restored_is_gone():
    weight, optimizer = stepped(1)
    restore_optimizer(optimizer, {"w": weight}, {})
    assert optimizer_state(optimizer, {"w": weight}) == {}
