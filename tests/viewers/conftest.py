"""Small graphs and molecules that the viewers' tests draw."""

import pytest
import torch
from matplotlib.text import Text
from torch_geometric.data import Batch, Data

ATOMIC_NUMBERS = {"H": 1, "C": 6, "N": 7, "O": 8}


def graph(num_nodes, links):
    """A graph with each link in both directions."""
    pairs = torch.tensor(links, dtype=torch.long).reshape(-1, 2)
    return Data(x=torch.ones(num_nodes, 2), edge_index=torch.cat([pairs, pairs.flip(1)]).t())


def texts(picture):
    """Every piece of text in a drawing."""
    return [text.get_text() for text in picture.figure.findobj(Text) if text.get_text()]


def make_two_graphs():
    """A triangle and a path of four: 7 nodes, 12 edges."""
    return [graph(3, [(0, 1), (1, 2), (0, 2)]), graph(4, [(0, 1), (1, 2), (2, 3)])]


def make_fixed_batch():
    """The two graphs padded by two graphs to 12 nodes and 20 edges: 3 and 2 padding nodes, 4 and 4 edges."""
    real = Batch.from_data_list(make_two_graphs())
    loops = torch.tensor([[7] * 4 + [10] * 4] * 2)
    return Batch(
        batch=torch.cat([real.batch, torch.tensor([2, 2, 2, 3, 3])]),
        ptr=torch.tensor([0, 3, 7, 10, 12]),
        edge_index=torch.cat([real.edge_index, loops], dim=1),
        nodes_mask=torch.arange(12) < 7,
        edges_mask=torch.arange(20) < 12,
        graphs_mask=torch.tensor([True, True, False, False]),
        num_nodes=12,
    )


def _molecule(symbols, places, bonds):
    pairs = torch.tensor([(start, end) for start, end, _ in bonds], dtype=torch.long).reshape(-1, 2)
    kinds = torch.nn.functional.one_hot(torch.tensor([order - 1 for *_, order in bonds]), 4).float()
    return Data(
        z=torch.tensor([ATOMIC_NUMBERS[symbol] for symbol in symbols]),
        pos=torch.tensor(places, dtype=torch.float),
        edge_index=torch.cat([pairs, pairs.flip(1)]).t(),
        edge_attr=torch.cat([kinds, kinds]),
    )


def make_molecules():
    """Water, hydrogen cyanide (with a triple bond) and methane."""
    tetrahedron = [(0, 0, 0), (0.6, 0.6, 0.6), (0.6, -0.6, -0.6), (-0.6, 0.6, -0.6), (-0.6, -0.6, 0.6)]
    return [
        _molecule("OHH", [(0, 0, 0), (0.96, 0, 0), (-0.24, 0.93, 0)], [(0, 1, 1), (0, 2, 1)]),
        _molecule("HCN", [(-1.06, 0, 0), (0, 0, 0), (1.15, 0, 0)], [(0, 1, 1), (1, 2, 3)]),
        _molecule("CHHHH", tetrahedron, [(0, hydrogen, 1) for hydrogen in range(1, 5)]),
    ]


@pytest.fixture
def two_graphs():
    return make_two_graphs()


@pytest.fixture
def pyg_batch(two_graphs):
    return Batch.from_data_list(two_graphs)


@pytest.fixture
def fixed_batch():
    return make_fixed_batch()


@pytest.fixture
def molecules():
    return make_molecules()
