"""XCLP in one place with numpy, a function for each stage (Scott, Yeo & Lampert, TMLR 2023, Algorithm 1): what bench-xclp.py holds a
swarm against. Points x features and points x classes; alpha is the session's.
"""

import numpy as np


def clusters(rng, points, features, classes):
    """Rows around as many centres as classes, the class of each, and whether it is known: of one in twenty."""
    centres = rng.normal(size=(classes, features))
    truth = rng.integers(classes, size=points)
    rows = (centres[truth] + 3 * rng.normal(size=(points, features))).astype(np.float32)
    return rows, truth, rng.random(points) < 0.05


def codes(rng, rows, bits):
    """The sides of random planes, 0 or 1 in float32, which is what matrix products are fastest in."""
    planes = rng.standard_normal((bits, rows.shape[1]), dtype=np.float32)
    return (rows @ planes.T > 0).astype(np.float32)


def distances(codes):
    """Hamming distances; a point is as far from itself as can be."""
    ones = codes.sum(1)
    found = ones[:, None] + ones[None, :] - 2 * codes @ codes.T
    np.fill_diagonal(found, codes.shape[1])
    return found


def nearest(distances, k):
    """The k nearest of each point."""
    return np.argpartition(distances, k, axis=1)[:, :k]


def graph(distances, near, bits):
    """N, the normalised sum of the matrix of similarities to the nearest and its transpose, dense."""
    b = np.zeros(distances.shape)
    similar = np.cos(np.pi * np.take_along_axis(distances, near, 1) / bits).clip(0)
    np.put_along_axis(b, near, similar, 1)
    w = b + b.T
    degree = np.maximum(w.sum(1), 1e-300)
    return w / np.sqrt(degree[:, None] * degree[None, :])


def labels(truth, known, classes):
    """1 where a point is known to have the label."""
    y = np.zeros((len(truth), classes))
    y[np.flatnonzero(known), truth[known]] = 1
    return y


def solved(normal, y, alpha=0.99):
    """(I - alpha N)^-1 y without the inverse."""
    return np.linalg.solve(np.eye(len(y)) - alpha * normal, y)
