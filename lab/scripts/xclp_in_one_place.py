"""Centralised XCLP with numpy, one function for each stage (Scott, Yeo & Lampert, TMLR 2023, Algorithm 1).

bench-xclp.py compares a session with it. Arrays are points x features and points x classes. alpha is the
alpha of the session.
"""

import numpy as np


def clusters(rng, points, features, classes):
    """Makes rows around one centre for each class. Returns rows, classes, and True for the known 5 %."""
    centres = rng.normal(size=(classes, features))
    truth = rng.integers(classes, size=points)
    rows = (centres[truth] + 3 * rng.normal(size=(points, features))).astype(np.float32)
    return rows, truth, rng.random(points) < 0.05


def codes(rng, rows, bits):
    """Returns the sides of random planes as 0 or 1 in float32, the fastest type for matrix products."""
    planes = rng.standard_normal((bits, rows.shape[1]), dtype=np.float32)
    return (rows @ planes.T > 0).astype(np.float32)


def distances(codes):
    """Returns Hamming distances. A point has the largest possible distance to itself."""
    ones = codes.sum(1)
    found = ones[:, None] + ones[None, :] - 2 * codes @ codes.T
    np.fill_diagonal(found, codes.shape[1])
    return found


def nearest(distances, k):
    """Returns the k nearest points of each point."""
    return np.argpartition(distances, k, axis=1)[:, :k]


def graph(distances, near, bits):
    """Returns N as a dense matrix: similarities to the nearest points plus their transpose, normalised."""
    b = np.zeros(distances.shape)
    similar = np.cos(np.pi * np.take_along_axis(distances, near, 1) / bits).clip(0)
    np.put_along_axis(b, near, similar, 1)
    w = b + b.T
    degree = np.maximum(w.sum(1), 1e-300)
    return w / np.sqrt(degree[:, None] * degree[None, :])


def labels(truth, known, classes):
    """Returns a matrix with 1 for each known label."""
    y = np.zeros((len(truth), classes))
    y[np.flatnonzero(known), truth[known]] = 1
    return y


def solved(normal, y, alpha=0.99):
    """Returns (I - alpha N)^-1 y without computing the inverse."""
    return np.linalg.solve(np.eye(len(y)) - alpha * normal, y)
