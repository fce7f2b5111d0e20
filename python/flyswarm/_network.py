"""The network of a session of the task "fedavg" as a classifier."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from flyswarm import _tensors
from flyswarm._files import prepared
from flyswarm._flyswarm import Layers
from flyswarm._learnt import WarningClassifier
from flyswarm._rows import each


class Network(WarningClassifier, BaseEstimator):
    """Network that a session of the task "fedavg" has trained.

    It is fitted from the start and cannot be fitted again.

    Parameters
    ----------
    file : bytes
        Result file of a session, in the safetensors format.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the session's order.
    n_features_in_ : int
        Number of features of a row, before scaling.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the session has names. Every call checks them.
    weights_ : dict of str to ndarray
        Weights as float32, such as "dense1.weight" of shape (n_outputs, n_inputs).
    digest : str
        SHA-256 of the file in hexadecimal digits. It is the same at every peer.

    Raises
    ------
    ValueError
        If the bytes are not such a file.

    Examples
    --------
    In the examples of the methods `network` has two features and two classes, as returned by
    `network, receipt = session.join(X, y, key=key)`.

    >>> Network(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: not a flyswarm network: no header of safetensors
    """

    def __init__(self, file):
        """Reads the file of a network. Raises ValueError if it is not such a file."""
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
        """Computes the scores (logits) of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Finite numbers with magnitudes below 2^80, not scaled. A frame needs the columns of the session.
            If the session describes the columns of a table, X can also be a frame of that table.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            Scores. The class with the highest score is the prediction.

        Raises
        ------
        ValueError
            If X has another form or other features.

        Examples
        --------
        >>> network.decision_function([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]).shape
        (3, 2)
        """
        X = self._taken(X)
        return np.concatenate(each(X, lambda rows, at: self._layers.scores(rows))).astype(float)

    def predict(self, X):
        """Predicts the label of each row: the class with the highest score.

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
        """Predicts the probability of each class: the softmax of the scores.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Probabilities. Each row sums to 1; columns are in the order of `classes_`.

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
        # Leaves out the hashes of rows, because they must stay at this peer.
        return {"file": self.file}

    def __setstate__(self, state):
        self.__init__(state["file"])
