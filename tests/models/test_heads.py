import torch

from seminar.models.heads import ValueHead


def test_a_new_head_says_zero_for_every_state() -> None:
    hidden = torch.linspace(-3, 50, 4 * 8).reshape(4, 8).to(torch.bfloat16)
    values = ValueHead(8)(hidden)
    assert values.tolist() == [0.0] * 4
    assert values.dtype == torch.float32


def test_a_new_head_has_a_gradient_to_learn_from() -> None:
    head = ValueHead(2)
    head(torch.tensor([[3.0, 1.0]])).sum().backward()
    # (3, 1) normalised: mean 2, deviation 1 -> (1, -1)
    torch.testing.assert_close(head.out.weight.grad, torch.tensor([[1.0, -1.0]]), rtol=1e-4, atol=0)


def test_the_scale_of_the_base_does_not_reach_the_value() -> None:
    head = ValueHead(3)
    torch.nn.init.ones_(head.out.weight)
    head.out.weight.data[0, 0] = 5.0
    hidden = torch.tensor([[1.0, -2.0, 0.5]])
    torch.testing.assert_close(head(hidden * 1000), head(hidden), rtol=1e-4, atol=0)


def test_a_state_is_taken_up_exactly() -> None:
    head, other = ValueHead(4), ValueHead(4)
    torch.nn.init.constant_(head.out.weight, 0.3)
    other.load_state_dict(head.state_dict())
    hidden = torch.arange(8.0).reshape(2, 4) ** 2
    assert torch.equal(head(hidden), other(hidden))
