"""The public names of the package."""

from flyswarm._classifier import FlyNNClassifier
from flyswarm._declared import Declared, Weights, declare
from flyswarm._events import Event, SessionWarning
from flyswarm._flyswarm import LeftError, Model, SessionError
from flyswarm._identity import Identity, Ledger
from flyswarm._joining import Joined
from flyswarm._local import Federation, local
from flyswarm._network import Network
from flyswarm._personal import KNNPerClassifier
from flyswarm._plots import Page
from flyswarm._propagation import LabelPropagation
from flyswarm._results import Labels
from flyswarm._session import Session
from flyswarm._simulation import simulate
from flyswarm._training import FedAvg, Round

__all__ = [
    "Declared",
    "Event",
    "FedAvg",
    "Federation",
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
    "Page",
    "Round",
    "Session",
    "SessionError",
    "SessionWarning",
    "Weights",
    "declare",
    "local",
    "simulate",
]
