"""Hidden states of an agent -> one value a token."""

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """Value of the state before each token, read from the hidden state that predicts it. One head an agent.

    Says 0 everywhere until it has learned. The hidden states are normalised first, for their scale differs by
    orders of magnitude between bases. Computes in float32 whatever the dtype of the base.
    """

    def __init__(self, width: int) -> None:
        """A head on hidden states of size `width`."""
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden_CH: Tensor) -> Tensor:
        """Values [C] of hidden states [C, H] (any leading axes)."""
        values: Tensor = self.out(self.norm(hidden_CH.to(torch.float32))).squeeze(-1)
        return values
