"""Estimators of the tasks, made from the result file of a session."""

import csv
import io
import json
import tomllib
from dataclasses import dataclass

import numpy as np

from flyswarm._classifier import FlyNNClassifier
from flyswarm._declared import Weights
from flyswarm._flyswarm import Model
from flyswarm._labels import with_gaps
from flyswarm._network import Network


@dataclass(frozen=True, eq=False)
class Labels:
    """Result of a session of the task "xclp" for this peer's own rows, in the order of the rows.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        Label of each row, with the type of the labels in `join`. A row that no label reaches has "" if labels
        are texts, -1 if they are integers, NaN if they are floats, and None otherwise.
    confidence_ : ndarray of shape (n_samples,)
        Confidence of each label, 0 to 1.
    inferred_ : ndarray of shape (n_samples,), bool
        True if the session inferred the label; False if the label was given, or if the row has no label.
    disputed_ : ndarray of shape (n_samples,), bool
        True if the given label of the row differs from the label of its neighbours.
    classes_ : ndarray of shape (n_classes,)
        The labels, in the session's order.

    Examples
    --------
    >>> import numpy as np
    >>> none = np.array([False, False])
    >>> classes = np.array(["ill", "well"])
    >>> Labels(np.array(["ill", ""]), np.array([0.9, 0.0]), none, none, classes).transduction_
    array(['ill', ''], dtype='<U3')
    """

    transduction_: np.ndarray
    confidence_: np.ndarray
    inferred_: np.ndarray
    disputed_: np.ndarray
    classes_: np.ndarray

    def __repr__(self):
        reached = int((self.confidence_ > 0).sum())
        return f"Labels(rows={len(self.transduction_)}, labelled={reached}, classes={len(self.classes_)})"


def labels(file, names, classes):
    """Reads the labels from a result file. `classes` has the label of each class in `names`."""
    rows = list(csv.DictReader(io.StringIO(file.decode())))
    column = lambda name: np.array([row[name] for row in rows], dtype=np.str_)
    inferred, disputed = column("source") == "inferred", column("disputed") == "yes"
    confidence = column("confidence").astype(float)
    found = with_gaps([row["label"] for row in rows], names, classes)
    return Labels(found, confidence, inferred, disputed, classes)


def best(file):
    """Returns an estimator that is not fitted, with the best settings of a session of the task "tune"."""
    found = tomllib.loads(file.decode())
    flynn, scaling = found["flynn"], found["scaling"]
    bins = {}
    if isinstance(scaling, dict):
        ((scaling, bins),) = scaling.items()
    given = {name: flynn[name] for name in ("m", "s", "rho", "gamma")}
    return FlyNNClassifier(**given, readout=flynn["score"], scaling=scaling, densify=found["densify"], **bins)


def result(task, file, names, classes, receipt, learnt=None, own=None):
    """Returns the estimator of a session of `task` and its figures, from the result file.

    `classes` has the label of each class in `names`, with the type of the labels in `join`. A peer without
    rows gets None and an empty dict. The estimator's `score` warns if rows are in `learnt`. `own` has this
    peer's own figures as JSON.
    """
    if not file:
        return None, {}
    match task:
        case "flynn":
            made = FlyNNClassifier.from_model(Model.decode(file), classes)
            made._learnt = learnt
            return made, receipt.get("evaluation") or {}
        case "fedavg" | "fedavg-xclp":
            if b'"format":"flyswarm-model/1"' in file[: 1 << 16]:
                made = Weights(file)
            else:
                made = Network(file, classes)
                made._learnt = learnt
            said = {name: receipt[name] for name in ("rounds", "scores") if name in receipt}
            return made, said | (receipt.get("evaluation") or {})
        case "xclp":
            found = {} if own is None else json.loads(own)
            return labels(file, names, classes), {"held_out": found} if "swarm" in found else {}
        case "tune":
            made = best(file)
            return made, made.get_params()
        case "sketch" | "summary" | "glm":
            return None, json.loads(file)
    return None, {}
