"""Runs the recipe for MLflow of docs/python.md against a store in a local folder."""

import re
from pathlib import Path

import numpy as np
import pytest
from flyswarm import Identity, Session, local

WITHOUT = "skipped: the recipe for MLflow needs mlflow (pip install mlflow-skinny)"
mlflow = pytest.importorskip("mlflow", reason=WITHOUT)


def recipe(root):
    text = (root.parent / "docs" / "python.md").read_text("utf-8")
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "import mlflow" in block)
    return block


def test_the_recipe_logs_rounds_network_and_page(tmp_path, monkeypatch, request, digits):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    keys = {name: Identity.new(tmp_path / name) for name in ("north", "south", "east")}
    session = Session.new(
        "wards", keys, task="fedavg", features=64, classes=range(10), network="logistic", rounds=3,
        fedavg={"rate": 0.1, "schedule": "constant"}, privacy={"min_contributors": 1},
    )  # fmt: skip
    X, y = digits[0], digits[1].astype(int)

    class Joins:
        """The session of the recipe, with two more peers on this machine."""

        name, text = session.name, session.text

        def show(self):
            return session.show()

        def join(self, X, y, key, on_event):
            others = {"north": (X[::3], y[::3]), "south": (X[1::3], y[1::3]), "east": (X[2::3], y[2::3])}
            told = lambda name, event: on_event(event) if name == "north" else None
            return local(session, others, on_event=told)[1]

    names = {"session": Joins(), "X": X, "y": y, "key": keys["north"]}
    exec(recipe(request.config.rootpath), names)
    (run,) = mlflow.search_runs(output_format="list", search_all_experiments=True)
    client = mlflow.MlflowClient()
    loss = client.get_metric_history(run.info.run_id, "loss")
    joined = names["joined"]
    assert run.info.run_name == "wards" and run.data.params["task"] == "fedavg"
    assert run.data.params["session"] == session.show()["id"]
    assert [each.step for each in loss] == [1, 2, 3]
    rounds = [each["loss"] for each in joined.figures["rounds"]]
    assert np.allclose([each.value for each in loss], rounds, atol=1e-3)
    found = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"wards.toml", "wards.safetensors", "wards.html"} <= found
    path = client.download_artifacts(run.info.run_id, "wards.safetensors", str(tmp_path))
    assert Path(path).read_bytes() == joined.file
