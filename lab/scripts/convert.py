#!/usr/bin/env python3
"""Converts collections for benchmarks to formats that flyswarm reads: IDX and libsvm to NPZ, ARFF to CSV.

    lab/scripts/convert.py idx IMAGES LABELS OUT.npz     # needs numpy; the files may be gzipped
    lab/scripts/convert.py libsvm FILE OUT.npz           # needs numpy and scikit-learn
    lab/scripts/convert.py arff FILE OUT.csv             # needs scipy; the label is the last attribute

An NPZ file has the arrays `X` (first axis: rows) and `y`. The Fashion-MNIST scenarios in lab/simulations need

    lab/scripts/convert.py idx ../shared/data/fashion-mnist/train-images-idx3-ubyte.gz \\
        ../shared/data/fashion-mnist/train-labels-idx1-ubyte.gz target/lab/fashion-train.npz
"""

import csv
import gzip
import sys
from pathlib import Path


def idx(path):
    """Reads unsigned bytes from an IDX file: two zero bytes, type 8, dimensions, sizes, elements."""
    import numpy as np

    raw = Path(path).read_bytes()
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if data[:3] != b"\0\0\x08":
        sys.exit(f"{path}: begins with {data[:3].hex(' ')}, expected 00 00 08: IDX of unsigned bytes")
    start = 4 + 4 * data[3]
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, start, 4)]
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def main():
    match sys.argv[1:]:
        case ["idx", images, labels, out]:
            import numpy as np

            x, y = idx(images), idx(labels)
            if len(x) != len(y):
                sys.exit(f"{labels}: {len(y)} labels, expected {len(x)} as in {images}")
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(out, X=x.reshape(len(x), -1), y=y)
        case ["libsvm", file, out]:
            import numpy as np
            from sklearn.datasets import load_svmlight_file

            x, y = load_svmlight_file(file)
            np.savez_compressed(out, X=x.toarray().astype("float32"), y=y.astype("int64"))
        case ["arff", file, out]:
            from scipy.io import arff

            table, meta = arff.loadarff(file)
            with open(out, "w", newline="") as opened:
                writer = csv.writer(opened)
                writer.writerow(meta.names())
                for row in table:
                    writer.writerow([v.decode() if isinstance(v, bytes) else f"{v:.9g}" for v in row])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
