"""What else several processes meet; run under torchrun by the tests, each process writing what it saw."""

import json
import logging
import os
import sys

import torch
from torch.nn.functional import mse_loss

from gnn_ipu_helpers import poptorch

RANK = int(os.environ["RANK"])


class Net(torch.nn.Module):
    def __init__(self, part=None):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.part = part or torch.nn.Identity()

    def forward(self, x):
        out = self.part(self.linear(x))
        return out, mse_loss(out, x)


class Selecting(torch.nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0].sum(0) * x


def wrapped(model, options=None):
    options = options or poptorch.Options()
    return poptorch.trainingModel(model.train(), options, poptorch.optim.SGD(model.parameters(), lr=0.1))


def message_of(model, *inputs, options=None):
    try:
        wrapped(model, options)(*inputs)
    except poptorch.Error as error:
        return str(error)
    return None


def main():
    seen = {}
    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    logging.getLogger("poptorch").addHandler(handler)

    x = torch.arange(12.0).view(4, 3) + RANK
    torch.manual_seed(RANK)  # a mistake: other weights in every process
    model = Net()
    wrapped(model)(x)
    seen["weights"] = model.linear.weight.tolist()
    seen["said"] = list(logged)

    torch.manual_seed(0)
    seen["not static"] = message_of(Net(Selecting()), x)
    seen["buffers"] = message_of(Net(torch.nn.BatchNorm1d(3)), x)
    seen["own buffers"] = message_of(
        Net(torch.nn.BatchNorm1d(3)), x, options=poptorch.Options().broadcastBuffers(False)
    )
    torch.manual_seed(0)
    dropping = wrapped(Net(torch.nn.Dropout(0.5)))
    seen["dropped"] = (dropping(torch.ones(40, 3))[0] == 0).tolist()
    counters = torch._dynamo.utils.counters["inductor"]
    seen["compiled"], seen["taken over"] = counters["fxgraph_cache_miss"], counters["fxgraph_cache_hit"]
    with open(f"{sys.argv[1]}/{RANK}.json", "w") as file:
        json.dump(seen, file)


if __name__ == "__main__":
    main()
