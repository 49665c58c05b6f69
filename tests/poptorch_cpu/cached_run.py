"""A process of its own: compile a model with the executable cache, train two steps, print what happened.

Arguments: the cache directory, or nothing to leave it to the environment.
"""

import json
import sys

from gnn_ipu_helpers import poptorch_cpu as poptorch
from tests.poptorch_cpu.models import Classifier, classified


def main():
    import torch._dynamo.utils

    torch.manual_seed(0)
    options = poptorch.Options().showCompilationProgressBar(False)
    if len(sys.argv) > 1:
        options.enableExecutableCaching(sys.argv[1])
    model = Classifier()
    trained = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=0.1))
    losses = [trained(*classified(8))[1].item() for _ in range(2)]
    counters = torch._dynamo.utils.counters["aot_autograd"]
    report = {
        "losses": losses,
        "hits": counters["autograd_cache_hit"],
        "misses": counters["autograd_cache_miss"],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
