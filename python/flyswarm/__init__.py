"""Federated learning with no central aggregator.

`FlyNNClassifier`, `LabelPropagation` and `KNNPerClassifier` are estimators with the interface of
scikit-learn. `Session` makes a session of several parties and joins it. The result is an estimator that is
fitted to the rows of all parties.
"""

from flyswarm._classifier import FlyNNClassifier
from flyswarm._events import Event, SessionWarning
from flyswarm._flyswarm import LeftError, Model, SessionError
from flyswarm._identity import Identity, Ledger
from flyswarm._network import Network
from flyswarm._personal import KNNPerClassifier
from flyswarm._program import simulate
from flyswarm._propagation import LabelPropagation
from flyswarm._results import Labels
from flyswarm._session import Joined, Session
from flyswarm._training import FedAvg, Round

__all__ = [
    "Event",
    "FedAvg",
    "FlyNNClassifier",
    "Identity",
    "Joined",
    "KNNPerClassifier",
    "LabelPropagation",
    "Labels",
    "LeftError",
    "Ledger",
    "Model",
    "Network",
    "Round",
    "Session",
    "SessionError",
    "SessionWarning",
    "simulate",
]
