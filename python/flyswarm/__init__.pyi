from flyswarm._classifier import FlyNNClassifier as FlyNNClassifier
from flyswarm._flyswarm import LeftError as LeftError
from flyswarm._flyswarm import Model as Model
from flyswarm._flyswarm import SessionError as SessionError
from flyswarm._personal import KNNPerClassifier as KNNPerClassifier
from flyswarm._propagation import LabelPropagation as LabelPropagation
from flyswarm._session import Event as Event
from flyswarm._session import Identity as Identity
from flyswarm._session import Joined as Joined
from flyswarm._session import Ledger as Ledger
from flyswarm._session import Session as Session
from flyswarm._session import simulate as simulate

__all__ = [
    "Event",
    "FlyNNClassifier",
    "Identity",
    "Joined",
    "KNNPerClassifier",
    "LabelPropagation",
    "LeftError",
    "Ledger",
    "Model",
    "Session",
    "SessionError",
    "simulate",
]
