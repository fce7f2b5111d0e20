from flyswarm._classifier import FlyNNClassifier as FlyNNClassifier
from flyswarm._events import Event as Event
from flyswarm._flyswarm import LeftError as LeftError
from flyswarm._flyswarm import Model as Model
from flyswarm._flyswarm import SessionError as SessionError
from flyswarm._identity import Identity as Identity
from flyswarm._identity import Ledger as Ledger
from flyswarm._network import Network as Network
from flyswarm._personal import KNNPerClassifier as KNNPerClassifier
from flyswarm._program import simulate as simulate
from flyswarm._propagation import LabelPropagation as LabelPropagation
from flyswarm._results import Labels as Labels
from flyswarm._session import Joined as Joined
from flyswarm._session import Session as Session
from flyswarm._training import FedAvg as FedAvg
from flyswarm._training import Round as Round

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
    "simulate",
]
