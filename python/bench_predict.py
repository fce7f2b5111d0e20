"""What `FlyNNClassifier.predict` costs beside the kernel alone, in one run.

    python python/bench_predict.py [rows]

The kernel is the extension's `predict` on all rows in one call, which adds nothing to the crate's but taking the
array's pointer. Both predict alike, in turn; the least time of several counts.
"""

import sys
import time

import numpy as np
from flyswarm import FlyNNClassifier

ROWS, FEATURES, CLASSES, RUNS = 100_000, 64, 10, 7


def seconds(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main(rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    y = rng.integers(CLASSES, size=rows)
    fitted = FlyNNClassifier().fit(X[:20_000], y[:20_000])
    model = fitted.model_
    assert (fitted.predict(X) == model.predict(X)).all()
    kernel, estimator = [], []
    for _ in range(RUNS):
        kernel.append(seconds(lambda: model.predict(X)))
        estimator.append(seconds(lambda: fitted.predict(X)))
    least, whole = min(kernel), min(estimator)
    print(f"{rows} rows of {FEATURES}: kernel {least:.3f} s, predict {whole:.3f} s, {100 * (whole / least - 1):+.1f} %")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
