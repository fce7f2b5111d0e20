"""The network of a session of the task `fedavg` as a classifier."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from flyswarm import _tensors
from flyswarm._files import prepared
from flyswarm._flyswarm import Layers
from flyswarm._learnt import WarningClassifier
from flyswarm._rows import each


class Network(WarningClassifier, BaseEstimator):
    """The network that a session of the task `fedavg` has trained. It comes fitted; it cannot be fitted anew.

    Parameters
    ----------
    file : bytes
        The result's file, in the format safetensors, as a session writes it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the session's order.
    n_features_in_ : int
        Features of a row, before they are scaled.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the session has some. They are checked in every call.
    weights_ : dict of str to ndarray
        The weights as float32, such as "dense1.weight" of shape (outputs, inputs).
    digest : str
        SHA-256 of the file in hexadecimal digits: the same at every peer.

    Raises
    ------
    ValueError
        If the bytes are no such file.

    Examples
    --------
    In the examples of the methods `network` is one for two features and two classes, as
    `network, receipt = session.join(X, y, key=key)` gives it.

    >>> Network(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: not a flyswarm network: no header of safetensors
    """

    def __init__(self, file):
        """Reads a network's file. Raises ValueError if it is none."""
        self.file = file
        self._learnt = None
        self._layers = Layers.decode(file)
        self.classes_ = np.asarray(self._layers.classes)
        self.n_features_in_ = self._layers.features
        if self._layers.columns:
            self.feature_names_in_ = np.asarray(self._layers.columns, dtype=object)
        tensors = _tensors.read(file)
        self.weights_ = {name: array for name, array in tensors.items() if not name.startswith("scaler.")}

    @property
    def digest(self):
        """SHA-256 of the file, a str of 64 hexadecimal digits.

        Examples
        --------
        >>> len(network.digest), Network(network.file).digest == network.digest
        (64, True)
        """
        return self._layers.digest

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        """The scores (logits) of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Finite numbers below 2^80, not scaled; a frame has the session's columns. Where the session
            describes the columns of a table, also a frame of such a table.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            The highest is the prediction.

        Raises
        ------
        ValueError
            If X is no such array or has other features.

        Examples
        --------
        >>> network.decision_function([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]).shape
        (3, 2)
        """
        X = self._taken(X)
        return np.concatenate(each(X, lambda rows, at: self._layers.scores(rows))).astype(float)

    def predict(self, X):
        """The label of each row: that of the highest score.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            As `decision_function`.

        Examples
        --------
        >>> network.predict([[0.0, 0.0], [1.0, 1.0]])
        array(['low', 'high'], dtype='<U4')
        """
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def predict_proba(self, X):
        """How likely each class is: the softmax of the scores.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.

        Raises
        ------
        ValueError
            As `decision_function`.

        Examples
        --------
        >>> p = network.predict_proba([[0.0, 0.0], [1.0, 1.0]])
        >>> p.shape, bool((abs(p.sum(axis=1) - 1) < 1e-9).all())
        ((2, 2), True)
        """
        scores = self.decision_function(X)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _taken(self, X):
        if self._layers.described and hasattr(X, "columns") and list(X.columns) != self._layers.columns:
            return prepared(X, self._layers.prepare)
        return validate_data(self, X, reset=False)

    def _compared(self, X):
        return self._taken(X), self._layers.classes

    def __getstate__(self):
        # Drops the hashes of rows, which stay at this peer.
        return {"file": self.file}

    def __setstate__(self, state):
        self.__init__(state["file"])
