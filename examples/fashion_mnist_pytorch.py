"""A small convolutional network on FashionMNIST in plain PyTorch: the script before porting."""

import argparse

import torch
from torch import nn
from tqdm.auto import tqdm

from gnn_ipu_helpers import datasets


class ClassificationModel(nn.Module):
    """Two convolutions and two linear layers: images `[n, 1, 28, 28]` to logits `[n, 10]`."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 5, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(5, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.fc1 = nn.Linear(972, 100)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(100, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.norm(self.relu(self.conv2(x)))
        x = torch.flatten(x, start_dim=1)
        x = self.relu(self.fc1(x))
        return self.fc2(x)


def normalise(images):
    return (images - 0.286) / 0.353


def train(model, dataset, batch_size, epochs, device):
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.train()
    model.to(device)
    for epoch in range(epochs):
        for images, labels in tqdm(loader, desc=f"Epoch {epoch + 1}", leave=False):
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            output = model(images)
            loss = criterion(output, labels)
            loss.backward()
            optimizer.step()


def evaluate(model, dataset, batch_size, device):
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size)
    model.eval()
    hits = 0
    with torch.no_grad():
        for images, labels in loader:
            output = model(images.to(device))
            hits += int((output.argmax(dim=1).cpu() == labels).sum())
    return hits / len(dataset)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--images", type=int, default=60000, help="train on the first so many images")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = datasets.fashion_mnist(pre_transform=normalise)
    train_set = torch.utils.data.Subset(train_set, range(arguments.images))
    model = ClassificationModel()
    train(model, train_set, arguments.batch_size, arguments.epochs, device)
    accuracy = evaluate(model, test_set, 100, device)
    print(f"Eval accuracy: {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    main()
