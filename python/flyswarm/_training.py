"""Sessions of the task "fedavg" with the user's own trainer."""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flyswarm import _tensors
from flyswarm._arguments import suggests
from flyswarm._declared import tensors_of, weights_of
from flyswarm._session import Session


@dataclass(frozen=True)
class Round:
    """One round of training that the session requests. The trainer decides how to train.

    Attributes
    ----------
    number, rounds : int
        Number of this round, from 1, and number of rounds.
    X : ndarray of shape (n_samples, n_features), float32
        This peer's rows without the held-out rows, with the session's scaling. The rows are the same in every
        round.
    y : ndarray of shape (n_samples,), int64
        Index of each row's class in the session's list of classes.
    rate : float
        Learning rate of this round by the session's schedule.
    epochs, steps : int
        Number of passes over the rows and number of batches. If `steps` is not 0, it replaces `epochs`.
    batch : int
        Number of rows of a batch.
    momentum, weight_decay, proximal : float
        Values from the session file.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.zeros((2, 3), np.float32), np.array([0, 1])
    >>> Round(1, 20, X, y, rate=0.05, epochs=1, steps=0, batch=32).number
    1
    """

    number: int
    rounds: int
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    rate: float
    epochs: int
    steps: int
    batch: int
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0

    def batches(self, rng):
        """Splits the rows into batches, shuffled again in each pass.

        Parameters
        ----------
        rng : numpy.random.Generator
            Generator that shuffles the rows.

        Yields
        ------
        rows : ndarray of shape (at most batch,), int64
            Indices of the rows of a batch.

        Raises
        ------
        AttributeError
            If `rng` is not a generator.

        Examples
        --------
        >>> import numpy as np
        >>> X, y = np.zeros((5, 3), np.float32), np.zeros(5, np.int64)
        >>> asked = Round(1, 20, X, y, rate=0.05, epochs=1, steps=0, batch=2)
        >>> batches = list(asked.batches(np.random.default_rng(0)))
        >>> [len(batch) for batch in batches], np.sort(np.concatenate(batches))
        ([2, 2, 1], array([0, 1, 2, 3, 4]))
        """
        left = self.steps
        for _ in range(self.epochs if self.steps == 0 else sys.maxsize):
            mixed = rng.permutation(len(self.y))
            for batch in np.split(mixed, range(self.batch, len(mixed), self.batch)):
                if self.steps:
                    if left == 0:
                        return
                    left -= 1
                yield batch


class FedAvg:
    """Joins a session of the task "fedavg" with the user's own trainer.

    Parameters
    ----------
    session : Session
        Session of the task "fedavg". Its network, or its list of tensors (`declare`), determines the names
        and shapes of the weights. If the trainers of all peers start with the first weights of that list, no
        peer needs the file of these weights.
    trainer : torch.nn.Module, or an object with `get_weights`, `set_weights` and `fit`
        `get_weights()` returns a mapping of names to arrays that are float32 or can be converted to it.
        `set_weights(w)` takes a dict of names to float32 arrays. `fit(round)` trains on the rows of a
        `Round`, starting from the weights that were set last. It returns None or a pair (loss, accuracy): the
        mean loss of the rows in nats, and the accuracy from 0 to 1. If it returns None and the network is a
        built-in one, the session computes both from the new weights. The node calls these methods one at a
        time, in a thread of its own.
    loss : callable or None
        Required for a torch module: a function of (scores, y) that returns a tensor with one number, the mean
        over a batch, such as `torch.nn.functional.cross_entropy`.
    optimizer : callable or None
        Required for a torch module: a function that takes the parameters and returns an optimiser, such as
        `functools.partial(torch.optim.SGD, lr=0.1)`. Each round makes a new optimiser and sets its learning
        rate to that of the round. The session sets `proximal`; the optimiser has all other settings.

    Raises
    ------
    TypeError
        If the trainer has a wrong type, or if loss or optimiser is missing for a module.

    Examples
    --------
    >>> FedAvg(None, object())
    Traceback (most recent call last):
    ...
    TypeError: the trainer has no get_weights: a torch module or get_weights, set_weights and fit are expected
    """

    def __init__(self, session, trainer, *, loss=None, optimizer=None):
        if all(hasattr(trainer, name) for name in ("state_dict", "load_state_dict", "parameters")):
            for name, given in (("loss", loss), ("optimizer", optimizer)):
                if not callable(given):
                    raise TypeError(f"{name} is {given!r}, expected a function: a torch module needs one")
            trainer = Module(trainer, loss, optimizer)
        for name in ("get_weights", "set_weights", "fit"):
            if not callable(getattr(trainer, name, None)):
                expected = "a torch module or get_weights, set_weights and fit are expected"
                raise TypeError(f"the trainer has no {name}: {expected}")
        self.session = session
        self.trainer = trainer

    @suggests(Session.join)
    def join(self, X, y=None, *, key, **given):
        """Joins the session like `Session.join`, and trains until this peer has its result.

        At the end the trainer has the final weights of the session.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features), or path
            This peer's rows.
        y : array-like of shape (n_samples,) or None
            Name of each row's class, as in the session.
        key : Identity or path
            Identity of this peer.
        **given
            Other arguments of `Session.join`.

        Returns
        -------
        joined : Joined
            Result with a `Network` as estimator. `figures` has loss and accuracy of every round.

        Raises
        ------
        ValueError
            As `Session.join`. Also if the trainer's weights do not match the session's network. The message
            names the tensor that is missing, unexpected, of another shape, or not finite.
        BaseException
            Any exception of `get_weights`, `set_weights` or `fit` ends the session and is raised here.

        Examples
        --------
        Weights that do not match the session's network are refused before any message is sent:

        >>> import numpy as np
        >>> class Same:
        ...     weights = {"dense1.weight": np.zeros((2, 4))}
        ...     def get_weights(self): return self.weights
        ...     def set_weights(self, weights): self.weights = weights
        ...     def fit(self, round): return None
        >>> fedavg = {"task": "fedavg", "network": "logistic"}
        >>> session = Session.new("wards", keys, features=4, classes=["ill", "well"], **fedavg)
        >>> X, y = np.zeros((40, 4), np.float32), ["ill", "well"] * 20
        >>> FedAvg(session, Same()).join(X, y, key=keys["north"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: ...dense1.bias...
        """
        return self._join(None, X, y, key=key, **given)

    def _join(self, stop, X, y, **given):
        return self._finished(self.session._join(stop, X, y, **self._asked(), **given))

    @suggests(Session.join)
    async def join_async(self, X, y=None, *, key, **given):
        """As `join`, for programs on asyncio; see `Session.join_async`.

        Parameters
        ----------
        X, y, key, **given
            As in `join`.

        Returns
        -------
        joined : Joined

        Raises
        ------
        BaseException
            As `join` and `Session.join_async`.

        Examples
        --------
        >>> import asyncio
        >>> class Failing:
        ...     def get_weights(self): raise ArithmeticError("no weights yet")
        ...     def set_weights(self, weights): pass
        ...     def fit(self, round): return None
        >>> fedavg = {"task": "fedavg", "network": "logistic"}
        >>> session = Session.new("wards", keys, features=1, classes=["ill", "well"], **fedavg)
        >>> X, y = [[0.0], [1.0]] * 20, ["ill", "well"] * 20
        >>> asyncio.run(FedAvg(session, Failing()).join_async(X, y, key=keys["north"]))
        Traceback (most recent call last):
        ...
        ArithmeticError: no weights yet
        """
        return self._finished(await self.session._join_async(X, y, key=key, **self._asked(), **given))

    def _asked(self):
        """Returns the arguments of `_joining.join` for this trainer."""
        dtypes = {each["name"]: each["dtype"] for each in tensors_of(self.session)}
        weights = _tensors.write(self.trainer.get_weights(), dtypes)
        return {"trainer": calls(self.trainer, dtypes), "weights": weights}

    def _finished(self, joined):
        weights = {name: array.copy() for name, array in joined.estimator.weights_.items()}
        # The trainer already has its own values of these tensors.
        own = [each["name"] for each in tensors_of(self.session) if each["rule"] == "keep-own"]
        if own:
            kept = self.trainer.get_weights()
            weights |= {name: kept[name] for name in own}
        self.trainer.set_weights(weights)
        return joined


def calls(trainer, dtypes=None):
    """Returns the function that the node calls each round: (order, X, y, weights) to (weights, figures)."""

    def train(order, X, y, weights):
        fields = json.loads(order)
        fields["number"] = fields.pop("round")
        trainer.set_weights(_tensors.read(weights))
        figures = trainer.fit(Round(X=X, y=y, **fields))
        if figures is not None:
            try:
                loss, accuracy = (float(figure) for figure in figures)
            except (TypeError, ValueError):
                problem = f"fit gave {figures!r}, expected None or a pair of loss and accuracy"
                raise TypeError(problem) from None
            figures = loss, accuracy
        return _tensors.write(trainer.get_weights(), dtypes), figures

    return train


class Module:
    """A torch module as a trainer. torch is imported only when a module is used."""

    def __init__(self, module, loss, optimizer):
        import torch

        self.torch, self.module, self.loss, self.optimizer = torch, module, loss, optimizer
        self.rng = np.random.default_rng()
        batches = torch.nn.modules.batchnorm._BatchNorm
        self.normalises = any(isinstance(part, batches) for part in module.modules())

    def get_weights(self):
        return weights_of(self.module)

    def set_weights(self, weights):
        tensors = {name: self.torch.from_numpy(np.array(value)) for name, value in weights.items()}
        self.module.load_state_dict(tensors)

    def fit(self, round):
        torch, module = self.torch, self.module
        parameters = list(module.parameters())
        device = parameters[0].device
        X, y = torch.from_numpy(round.X).to(device), torch.from_numpy(round.y).to(device)
        start = [parameter.detach().clone() for parameter in parameters]
        optimizer = self.optimizer(parameters)
        for group in optimizer.param_groups:
            group["lr"] = round.rate
        module.train()
        total, right, seen = 0.0, 0, 0
        for batch in round.batches(self.rng):
            # Batch normalisation needs more than one row to compute a variance.
            if self.normalises and len(batch) == 1:
                continue
            batch = torch.from_numpy(batch).to(device)
            scores = module(X[batch])
            loss = self.loss(scores, y[batch])
            optimizer.zero_grad()
            loss.backward()
            if round.proximal:
                for parameter, first in zip(parameters, start, strict=True):
                    if parameter.grad is not None:
                        parameter.grad += round.proximal * (parameter.detach() - first)
            optimizer.step()
            total += float(loss.detach()) * len(batch)
            right += int((scores.argmax(1) == y[batch]).sum())
            seen += len(batch)
        return total / max(seen, 1), right / max(seen, 1)
