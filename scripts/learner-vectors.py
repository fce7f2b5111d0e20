"""Computes losses and gradients of the built-in learner's networks with NumPy, in binary64.

Writes crates/learn/tests/learner.json. Run it again after a change of a network:
python3 scripts/learner-vectors.py
"""

import json
from pathlib import Path

import numpy as np

ROWS, CLASSES = 4, 3


def numbers(count, seed):
    """Returns numbers in -1..1 that are exact in binary32."""
    return np.round(np.sin(np.arange(1, count + 1) * (1.7 + 0.1 * seed)) * 2**12) / 2**12


def dense(x, w, b, relu):
    """Returns the output, and a function from its gradient to the gradients of x, w and b."""
    y = x @ w.T + b
    out = np.maximum(y, 0) if relu else y

    def back(g):
        g = g * (y > 0) if relu else g
        return g @ w, [g.T @ x, g.sum(0)]

    return out, back


def convolution(x, w, b):
    rows, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifts = [(i, j) for i in range(3) for j in range(3)]
    cut = lambda image, i, j: image[:, :, i : i + height, j : j + width]
    y = sum(np.einsum("nchw,fc->nfhw", cut(padded, i, j), w[:, :, i, j]) for i, j in shifts)
    y = y + b[None, :, None, None]

    def back(g):
        g = g * (y > 0)
        dw, dx = np.zeros_like(w), np.zeros_like(padded)
        for i, j in shifts:
            dw[:, :, i, j] = np.einsum("nfhw,nchw->fc", g, cut(padded, i, j))
            cut(dx, i, j)[...] += np.einsum("nfhw,fc->nchw", g, w[:, :, i, j])
        return dx[:, :, 1:-1, 1:-1], [dw, g.sum((0, 2, 3))]

    return np.maximum(y, 0), back


def pool(x):
    rows, channels, height, width = x.shape
    even = x[:, :, : height // 2 * 2, : width // 2 * 2]
    blocks = even.reshape(rows, channels, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    blocks = blocks.reshape(*blocks.shape[:4], 4)
    best = blocks.argmax(-1)

    def back(g):
        spread = np.zeros_like(blocks)
        np.put_along_axis(spread, best[..., None], g[..., None], -1)
        spread = spread.reshape(rows, channels, height // 2, width // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
        dx = np.zeros_like(x)
        dx[:, :, : height // 2 * 2, : width // 2 * 2] = spread.reshape(even.shape)
        return dx, []

    return blocks.max(-1), back


def flat(x):
    return x.reshape(len(x), -1), lambda g: (g.reshape(x.shape), [])


def case(name, settings, shapes, layers):
    tensors = []
    for seed, shape in enumerate(shapes):
        tensors.append(0.5 * numbers(int(np.prod(shape)), seed).reshape(shape))
    features = int(np.prod(settings.get("image", [settings.get("features", 0)])))
    x = numbers(ROWS * features, 9).reshape(ROWS, features)
    out = x.reshape(ROWS, *settings["image"]) if "image" in settings else x
    backs, rest = [], list(tensors)
    for layer, count in layers:
        own, rest = rest[:count], rest[count:]
        out, back = layer(out, *own)
        backs.append(back)
    labels = np.arange(ROWS) % CLASSES
    p = np.exp(out - out.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(ROWS), labels]).sum()
    g = (p - np.eye(CLASSES)[labels]) / ROWS
    gradient = []
    for back in reversed(backs):
        g, own = back(g)
        gradient = own + gradient
    join = lambda parts: [float(v) for part in parts for v in np.ravel(part)]
    rounded = [round(value, 9) for value in join(gradient)]
    return {"network": name, **settings, "weights": join(tensors), "rows": x.ravel().tolist(), "loss": loss, "gradient": rounded}


plain = lambda x, w, b: dense(x, w, b, False)
hidden = lambda x, w, b: dense(x, w, b, True)
cases = [
    case("logistic", {"features": 5}, [(3, 5), (3,)], [(plain, 2)]),
    case("mlp", {"features": 5, "hidden": [4]}, [(4, 5), (4,), (3, 4), (3,)], [(hidden, 2), (plain, 2)]),
    case(
        "cnn",
        {"image": [2, 9, 8], "filters": [2, 3, 2], "hidden": [4]},
        [(2, 2, 3, 3), (2,), (3, 2, 3, 3), (3,), (2, 3, 3, 3), (2,), (4, 2), (4,), (3, 4), (3,)],
        [(convolution, 2), (pool, 0)] * 3 + [(flat, 0), (hidden, 2), (plain, 2)],
    ),
]
path = Path(__file__).parent.parent / "crates/learn/tests/learner.json"
path.write_text(json.dumps(cases) + "\n")
print(f"{path}: {path.stat().st_size} bytes")
