"""Models of any kind: the list of their tensors for a session file, and their trained weights."""

import fnmatch
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from flyswarm import _tensors
from flyswarm._flyswarm import OwnModel
from flyswarm._flyswarm import declare as listed
from flyswarm._saved import Saved

RULES = ("average", "keep-own", "first")
NAMES = {np.dtype(text): name for name, text in _tensors.TYPES.items() if name != "BF16"}


class Declared(Saved, dict):
    """Fields of the section `fedavg` of a session that trains a model of the user.

    The fields are `network`, `tensors` (a list of dicts with `name`, `dtype`, `shape`, `rule` and `range`)
    and `initial`. `Session.new(..., task="fedavg", fedavg=declared | {"rounds": 20})` makes the session.

    Attributes
    ----------
    file : bytes
        The first weights in the safetensors format. Every peer needs them.

    Examples
    --------
    >>> import numpy as np
    >>> declared = declare({"w": np.zeros((2, 3)), "steps": np.array(0)})
    >>> [(each["name"], each["rule"]) for each in declared["tensors"]]
    [('w', 'average'), ('steps', 'first')]
    >>> (declared | {"rounds": 20})["rounds"]
    20
    """

    def __init__(self, fields, file):
        super().__init__(fields)
        self.file = file

    def __or__(self, fields):
        """Returns these fields and other `fields` of the section `fedavg`; the others replace equal names."""
        return Declared({**self, **fields}, self.file)


def declare(model, rules=None):
    """Lists the tensors of a model for a session.

    Tensors of floats are averaged. Whole numbers and booleans, such as `num_batches_tracked`, keep their
    first values. The range of a tensor is large enough for training; you can change `declared["tensors"]`.

    Parameters
    ----------
    model : torch.nn.Module, object with `get_weights`, or mapping of str to array
        The model, with the first weights of the session.
    rules : mapping of str to {"average", "keep-own", "first"}, or None
        Rules by name. A name can have `*`, such as `{"bn*": "keep-own"}`. The last rule that fits a tensor
        counts.

    Returns
    -------
    declared : Declared

    Raises
    ------
    ValueError
        If a rule does not exist, or its name fits no tensor.
    TypeError
        If the model has no tensors, or a tensor has a type that cannot be sent.

    Examples
    --------
    >>> import numpy as np
    >>> declare({"w": np.zeros(2), "b": np.zeros(2)}, {"b": "keep-own"})["tensors"][1]["rule"]
    'keep-own'
    """
    tensors, dtypes = weights_of(model), dtypes_of(model)
    file = _tensors.write(tensors, dtypes)
    text, digest = listed(file)
    found = json.loads(text)
    for pattern, rule in (rules or {}).items():
        if rule not in RULES:
            raise ValueError(f"the rule of {pattern!r} is {rule!r}, expected one of {', '.join(RULES)}")
        fits = [each for each in found if fnmatch.fnmatchcase(each["name"], pattern)]
        if not fits:
            raise ValueError(f"the rule for {pattern!r} fits no tensor")
        for each in fits:
            each["rule"] = rule
    return Declared({"network": "own", "tensors": found, "initial": digest, "held_out": 0}, file)


def weights_of(model):
    """Returns the arrays of a model by name. Tensors of bfloat16 become float32."""
    if hasattr(model, "state_dict"):
        values = {name: value.detach().cpu() for name, value in model.state_dict().items()}
        half = lambda value: value.float() if str(value.dtype) == "torch.bfloat16" else value
        return {name: half(value).numpy() for name, value in values.items()}
    found = model.get_weights() if hasattr(model, "get_weights") else model
    if not isinstance(found, Mapping) or not found:
        raise TypeError(f"{type(model).__name__} has no tensors: a torch module or a mapping is expected")
    return found


def dtypes_of(model):
    """Returns the type of each tensor by the tensor's name. Types are named as in the safetensors format."""
    if hasattr(model, "state_dict"):
        half = [name for name, value in model.state_dict().items() if str(value.dtype) == "torch.bfloat16"]
    else:
        half = []
    types = {}
    for name, values in weights_of(model).items():
        dtype = np.asarray(values).dtype
        if name not in half and dtype not in NAMES:
            raise TypeError(f"{name} has the type {dtype}, expected one of {', '.join(map(str, NAMES))}")
        types[name] = "BF16" if name in half else NAMES[dtype]
    return types


def tensors_of(session):
    """Returns the tensors that a session file lists. The list is empty for a built-in network."""
    return tomllib.loads(session.text).get("fedavg", {}).get("tensors", [])


class Weights(Saved):
    """Weights of a user's own model that a session of the task "fedavg" has trained.

    Parameters
    ----------
    file : bytes
        Result file of a session whose network is "own".

    Attributes
    ----------
    weights_ : dict of str to ndarray
        The tensors by name, for `load_state_dict` and similar functions. Tensors of bfloat16 are float32.
        Tensors with the rule "keep-own" have their first values here; the trainer of each peer has its own
        values.
    classes_ : list of str
        Names of the classes, in the order of their indices.
    digest : str
        SHA-256 of the file in hexadecimal digits. It is the same at every peer.

    Raises
    ------
    ValueError
        If the bytes are not such a result file.

    Examples
    --------
    >>> Weights(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: the file is not a file in the format safetensors
    """

    def __init__(self, file):
        self.file = file
        self._made = OwnModel.decode(file)
        self.weights_ = _tensors.read(file)
        self.classes_, self.digest = self._made.classes, self._made.digest

    @classmethod
    def load(cls, path):
        """Reads the result file of a session.

        Parameters
        ----------
        path : path
            The file, such as "wards.safetensors".

        Returns
        -------
        weights : Weights

        Raises
        ------
        ValueError
            If the file is not a result file of a session whose network is "own".
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> Weights.load("missing.safetensors")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        FileNotFoundError: ...
        """
        return cls(Path(path).read_bytes())

    def scale(self, X):
        """Scales rows in the same way as the session has scaled the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with the features in the order of the session.

        Returns
        -------
        scaled : ndarray of shape (n_samples, n_inputs), float32

        Raises
        ------
        ValueError
            If X has another number of features.

        Examples
        --------
        >>> Weights(b"").scale([[0.0]])
        Traceback (most recent call last):
        ...
        ValueError: the file is not a file in the format safetensors
        """
        return self._made.scale(np.ascontiguousarray(X, np.float32))

    def __repr__(self):
        return f"Weights(tensors={len(self.weights_)}, digest='{self.digest[:16]}')"
