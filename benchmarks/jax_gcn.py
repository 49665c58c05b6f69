"""The GCN of `models.py` in JAX, for comparison where JAX is installed.

The same sizes, layers, loss and Adam, written with `jax.ops.segment_sum` and compiled whole by `jax.jit`.
Takes turns with whoever starts it: for every line read it makes some steps and prints the CPU seconds of one.
"""

from __future__ import annotations

import os
import sys
import time

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
if THREADS == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

NODES, EDGES, WIDTH, GRAPHS = 2304, 4864, 64, 128
STEPS = 30


def loss(weights, x, source, target, batch, y):
    """The mean squared error of three GCN layers between two linear ones."""
    h = x @ weights[0] + weights[1]
    degree = jax.ops.segment_sum(jnp.ones(EDGES), target, NODES)
    norm = jnp.where(degree > 0, degree**-0.5, 0.0)
    edge_weight = (norm[source] * norm[target])[:, None]
    for layer in range(3):
        messages = (h @ weights[2 + 2 * layer])[source] * edge_weight
        h = jax.nn.relu(jax.ops.segment_sum(messages, target, NODES) + weights[3 + 2 * layer])
    size = jnp.maximum(jax.ops.segment_sum(jnp.ones(NODES), batch, GRAPHS), 1)
    mean = jax.ops.segment_sum(h, batch, GRAPHS) / size[:, None]
    return jnp.mean(((mean @ weights[8] + weights[9])[:, 0] - y) ** 2)


@jax.jit
def step(weights, first, second, number, *batch):
    """One step of Adam."""
    value, gradients = jax.value_and_grad(loss)(weights, *batch)
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients)]
    weights = [
        w - 1e-3 * (m / (1 - 0.9**number)) / (jnp.sqrt(v / (1 - 0.999**number)) + 1e-8)
        for w, m, v in zip(weights, first, second)
    ]
    return weights, first, second, number + 1, value


def main() -> None:
    """Make steps until there is nothing more to read."""
    random = np.random.default_rng(0)
    shapes = [(11, WIDTH), (WIDTH,), *[(WIDTH, WIDTH), (WIDTH,)] * 3, (WIDTH, 1), (1,)]
    weights = [jnp.asarray(random.normal(size=shape) * 0.1, jnp.float32) for shape in shapes]
    graph = np.arange(NODES) // (NODES // GRAPHS)
    source = random.integers(0, NODES, EDGES)
    target = np.minimum(source // 18 * 18 + random.integers(0, 18, EDGES), NODES - 1)
    inputs = [
        jnp.asarray(random.normal(size=(NODES, 11)), jnp.float32),
        *map(jnp.asarray, (source, target, graph)),
        jnp.asarray(random.normal(size=GRAPHS), jnp.float32),
    ]
    zeros = [jnp.zeros_like(weight) for weight in weights]
    state = (weights, zeros, zeros, jnp.float32(1))
    *state, value = step(*state, *inputs)
    for _ in sys.stdin:
        value.block_until_ready()
        start = time.process_time()
        for _ in range(STEPS):
            *state, value = step(*state, *inputs)
            value.block_until_ready()
        print((time.process_time() - start) / STEPS, flush=True)


if __name__ == "__main__":
    main()
