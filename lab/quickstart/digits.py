"""The network and the rows that both programs use: a small CNN in PyTorch, and four parts of the digits."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

PARTS = 4
ROUNDS = 20
EPOCHS = 2
RATE = 0.1
BATCH = 32


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution1 = nn.Conv2d(1, 8, 3, padding=1)
        self.convolution2 = nn.Conv2d(8, 16, 3, padding=1)
        self.convolution3 = nn.Conv2d(16, 16, 3, padding=1)
        self.dense1 = nn.Linear(16, 32)
        self.dense2 = nn.Linear(32, 10)

    def forward(self, x):
        x = x.view(-1, 1, 8, 8)
        for convolution in (self.convolution1, self.convolution2, self.convolution3):
            x = nn.functional.max_pool2d(convolution(x).relu(), 2)
        return self.dense2(self.dense1(x.flatten(1)).relu())


def first(seed):
    """Returns the network with initial weights that follow from the seed."""
    torch.manual_seed(seed)
    return Cnn()


def rows():
    """Returns rows and labels to train on, and to test on."""
    X, y = load_digits(return_X_y=True)
    test = np.arange(len(X)) % 4 == 0
    X = (X / 16).astype(np.float32)
    return X[~test], y[~test], X[test], y[test]


def part(number):
    """Returns rows and labels of one peer."""
    X, y, _, _ = rows()
    return X[number::PARTS], y[number::PARTS]


def accuracy(module):
    """Returns the share of the test rows that the module predicts correctly."""
    _, _, X, y = rows()
    with torch.no_grad():
        return float((module.eval()(torch.from_numpy(X)).argmax(1).numpy() == y).mean())
