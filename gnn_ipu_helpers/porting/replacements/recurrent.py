"""`torch.nn.LSTM` written out step by step: its fused CPU kernel has no compiled backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from .scope import replaces_method

_lstm_forward = torch.nn.LSTM.forward


@replaces_method(torch.nn.LSTM)
def lstm(self, input, hx=None):
    """`(output, (h, c))` of `input` [B, T, F] or [T, B, F], all layers and directions unrolled over T."""
    if not isinstance(input, Tensor) or self.proj_size > 0:
        return _lstm_forward(self, input, hx)
    is_batched = input.dim() == 3
    steps = input if is_batched else input.unsqueeze(0 if self.batch_first else 1)
    steps = steps.transpose(0, 1) if self.batch_first else steps
    num_directions = 2 if self.bidirectional else 1
    if hx is None:
        zeros = input.new_zeros(self.num_layers * num_directions, steps.size(1), self.hidden_size)
        hx = (zeros, zeros)
    elif not is_batched:
        hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
    last_hidden, last_cell = [], []
    for layer in range(self.num_layers):
        outputs = []
        for direction in range(num_directions):
            number = layer * num_directions + direction
            weights = self._all_weights[number]
            weights = [getattr(self, name) for name in weights]
            output, hidden, cell = _direction(steps, hx[0][number], hx[1][number], weights, direction == 1)
            outputs.append(output)
            last_hidden.append(hidden)
            last_cell.append(cell)
        steps = torch.cat(outputs, dim=-1)
        if layer + 1 < self.num_layers:
            steps = torch.nn.functional.dropout(steps, self.dropout, self.training)
    output = steps.transpose(0, 1) if self.batch_first else steps
    hidden, cell = torch.stack(last_hidden), torch.stack(last_cell)
    if is_batched:
        return output, (hidden, cell)
    return output.squeeze(0 if self.batch_first else 1), (hidden.squeeze(1), cell.squeeze(1))


def _direction(steps: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor], is_reversed: bool):
    """One layer in one direction over `steps` [T, B, F]: `(output [T, B, H], hidden [B, H], cell [B, H])`."""
    to_gates, hidden_to_gates = weights[0], weights[1]
    bias = weights[2] + weights[3] if len(weights) > 2 else None
    gates_of_input = torch.nn.functional.linear(steps, to_gates, bias)
    order = range(steps.size(0))
    outputs = [hidden] * steps.size(0)
    for step in reversed(order) if is_reversed else order:
        gates = gates_of_input[step] + hidden @ hidden_to_gates.t()
        enter, forget, candidate, leave = gates.chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        outputs[step] = hidden
    return torch.stack(outputs), hidden, cell
