"""Tests that the type stubs are strict and match the code."""

import subprocess
import sys

ROOT = __file__.rsplit("/", 2)[0]


def test_mypy_accepts_the_stubs_strictly(tmp_path):
    # One program uses all names correctly; the other has an error.
    right = "import numpy as np\nfrom flyswarm import FlyNNClassifier, Session\n"
    right += "p = FlyNNClassifier(m=64).fit([[0.0]], [1]).predict_proba(np.zeros((1, 1)))\nreveal_type(p)\n"
    right += "def run(session: Session) -> None:\n    joined = session.join(key='key')\n"
    right += "    print(joined.receipt)\n"
    (tmp_path / "right.py").write_text(right)
    (tmp_path / "wrong.py").write_text("from flyswarm import FlyNNClassifier\nFlyNNClassifier(m='64')\n")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    stubs = [f"{ROOT}/flyswarm/{name}.pyi" for name in ("_classifier", "_flyswarm", "_session")]
    found = subprocess.run([*mypy, *stubs, "right.py"], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "float64" in found.stdout
    found = subprocess.run([*mypy, "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    assert 'has incompatible type "str"; expected "int"' in found.stdout
