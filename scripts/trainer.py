"""A trainer for `flyswarm join --trainer 'python3 scripts/trainer.py'`: the network `logistic`, in NumPy.

docs/networks.md describes the requests and answers. With --same it does not train, for measurements.
"""

import json
import os
import sys

import numpy as np

FOLDER = os.environ["FLYSWARM_FOLDER"]
TYPES = {"F32": "<f4", "I64": "<i8"}


def load(name):
    data = open(os.path.join(FOLDER, name), "rb").read()
    size = int.from_bytes(data[:8], "little")
    header, data = json.loads(data[8 : 8 + size]), data[8 + size :]
    cut = lambda place: data[place["data_offsets"][0] : place["data_offsets"][1]]
    return {key: np.frombuffer(cut(place), TYPES[place["dtype"]]).reshape(place["shape"]) for key, place in header.items()}


def save(name, tensors):
    header, at = {}, 0
    for key, tensor in tensors.items():
        header[key] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor, "<f4").tobytes())


def probabilities(x, weights):
    scores = x @ weights["dense1.weight"].T + weights["dense1.bias"]
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


random = np.random.default_rng()
answers = open(os.environ["FLYSWARM_ANSWERS"], "w")
for line in sys.stdin:
    order = json.loads(line)
    rows, weights = load("rows.safetensors"), load("weights.safetensors")
    x, y = rows["x"], rows["y"]
    loss = accuracy = 0.0
    if "--same" not in sys.argv:
        said = probabilities(x, weights)
        loss = float(-np.log(said[np.arange(len(y)), y] + 1e-30).mean())
        accuracy = float((said.argmax(1) == y).mean())
        weights = {key: tensor.copy() for key, tensor in weights.items()}
        speed = {key: np.zeros_like(tensor) for key, tensor in weights.items()}
        for _ in range(order["epochs"]):
            mixed = random.permutation(len(y))
            for batch in np.split(mixed, range(order["batch"], len(y), order["batch"])):
                off = probabilities(x[batch], weights)
                off[np.arange(len(batch)), y[batch]] -= 1
                off /= len(batch)
                slopes = {"dense1.weight": off.T @ x[batch], "dense1.bias": off.sum(0)}
                for key, slope in slopes.items():
                    slope = slope + order["weight_decay"] * weights[key]
                    speed[key] = order["momentum"] * speed[key] + slope
                    weights[key] -= (order["rate"] * speed[key]).astype("f4")
    save("answer.safetensors", weights)
    print(json.dumps({"round": order["round"], "rows": len(y), "loss": loss, "accuracy": accuracy}), file=answers, flush=True)
