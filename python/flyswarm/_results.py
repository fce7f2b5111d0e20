"""Estimators of the tasks, made from the result file of a session."""

import csv
import io
import json
import tomllib
from dataclasses import dataclass

import numpy as np

from flyswarm._classifier import FlyNNClassifier
from flyswarm._flyswarm import Model
from flyswarm._network import Network


@dataclass(frozen=True, eq=False)
class Labels:
    """Result of a session of the task "xclp" for this peer's own rows, in their order.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        Label of each row, by its name in the session; "" if no label reaches the row.
    confidence_ : ndarray of shape (n_samples,)
        Confidence of each label, 0 to 1.
    inferred_ : ndarray of shape (n_samples,), bool
        True if the session inferred the label; False if the label was given, or the row has none.
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


def labels(file, classes):
    """Reads the labels from a file of `flyswarm join`."""
    rows = list(csv.DictReader(io.StringIO(file.decode())))
    column = lambda name: np.array([row[name] for row in rows], dtype=np.str_)
    inferred, disputed = column("source") == "inferred", column("disputed") == "yes"
    confidence = column("confidence").astype(float)
    return Labels(column("label"), confidence, inferred, disputed, np.asarray(classes))


def best(file):
    """Returns an estimator, not fitted, with the best setting of a session of the task "tune"."""
    found = tomllib.loads(file.decode())
    flynn, scaling = found["flynn"], found["scaling"]
    bins = {}
    if isinstance(scaling, dict):
        (scaling, bins), = scaling.items()
    given = {name: flynn[name] for name in ("m", "s", "rho", "gamma")}
    return FlyNNClassifier(**given, readout=flynn["score"], scaling=scaling, densify=found["densify"], **bins)


def result(task, file, classes, receipt, learnt=None):
    """Returns the estimator of a session of `task` and its figures, from the result file.

    A peer without rows gets None and an empty dict. The estimator warns before it scores rows of `learnt`.
    """
    if not file:
        return None, {}
    match task:
        case "flynn":
            made = FlyNNClassifier.from_model(Model.decode(file))
            made._learnt = learnt
            return made, receipt.get("evaluation") or {}
        case "fedavg" | "fedavg-xclp":
            made = Network(file)
            made._learnt = learnt
            said = {name: receipt[name] for name in ("rounds", "scores")}
            return made, said | (receipt.get("evaluation") or {})
        case "xclp":
            return labels(file, classes), {}
        case "tune":
            made = best(file)
            return made, made.get_params()
        case "sketch":
            return None, json.loads(file)
    return None, {}
