"""What a session of each task gives, made from its result's file."""

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
    """What a session of the task `xclp` says of this peer's own rows, in their order.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        The label of each row, by its name in the session; "" where no label reaches it.
    confidence_ : ndarray of shape (n_samples,)
        How sure each label is, 0 to 1.
    inferred_ : ndarray of shape (n_samples,), bool
        Whether the session has found the label; False where it was given, or there is none.
    disputed_ : ndarray of shape (n_samples,), bool
        Whether the row was given with another label than its neighbours have.
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
    """The labels in a file of `flyswarm join`."""
    rows = list(csv.DictReader(io.StringIO(file.decode())))
    column = lambda name: np.array([row[name] for row in rows], dtype=np.str_)
    inferred, disputed = column("source") == "inferred", column("disputed") == "yes"
    confidence = column("confidence").astype(float)
    return Labels(column("label"), confidence, inferred, disputed, np.asarray(classes))


def best(file):
    """An estimator, not fitted, with the best setting of a session of the task `tune`."""
    found = tomllib.loads(file.decode())
    flynn, scaling = found["flynn"], found["scaling"]
    bins = {}
    if isinstance(scaling, dict):
        (scaling, bins), = scaling.items()
    given = {name: flynn[name] for name in ("m", "s", "rho", "gamma")}
    return FlyNNClassifier(**given, readout=flynn["score"], scaling=scaling, densify=found["densify"], **bins)


def result(task, file, classes, receipt, learnt=None):
    """The estimator of a session of `task` and its figures, from its file; none for a peer without rows.

    It warns before it scores rows that it has `learnt` from.
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
