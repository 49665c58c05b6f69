"""Measure the real datasets and write the sizes that their stand-ins take into `original_sizes.npz`.

    python tools/measure_originals.py        wants the raw files of all of them (`$DATASETS_DIR`, else data/)

The file holds counts only: nodes, edges and label of each graph of MUTAG and PROTEINS; how many papers of
Cora and PubMed have 0, 1, 2, ... links; how many directors and actors of IMDB have 0, 1, 2, ... movies, and
how many movies 0, 1, 2, ... actors.
"""

import os
from pathlib import Path

import numpy as np

from gnn_ipu_helpers import datasets

FILE = Path(datasets.__file__).with_name("original_sizes.npz")


def sizes_of_graphs(dataset) -> np.ndarray:
    """Nodes, edges and label of each graph, uint16 `[num_graphs, 3]`."""
    nodes, edges = dataset.slices["x"].diff(), dataset.slices["edge_index"].diff()
    return np.stack([nodes, edges, dataset._data.y], axis=1).astype(np.uint16)


def spread(ends) -> np.ndarray:
    """How many nodes occur 0, 1, 2, ... times among the ends of edges, uint16."""
    return np.bincount(np.bincount(ends)).astype(np.uint16)


def main() -> None:
    os.environ["GNN_IPU_DATA"] = "real"
    movies = datasets.imdb()[0]
    np.savez_compressed(
        FILE,
        mutag=sizes_of_graphs(datasets.mutag()),
        proteins=sizes_of_graphs(datasets.proteins()),
        cora_links=spread(datasets.cora()[0].edge_index[0]),
        pubmed_links=spread(datasets.pubmed()[0].edge_index[0]),
        imdb_director_movies=spread(movies["movie", "director"].edge_index[1]),
        imdb_actor_movies=spread(movies["movie", "actor"].edge_index[1]),
        imdb_movie_actors=spread(movies["movie", "actor"].edge_index[0]),
    )
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
