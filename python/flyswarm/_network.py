"""The network of a session of the task "fedavg" as a classifier."""

from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator

from flyswarm import _tensors
from flyswarm._arguments import path_text
from flyswarm._base import SessionClassifier
from flyswarm._flyswarm import Layers
from flyswarm._program import call
from flyswarm._rows import each
from flyswarm._saved import Saved


class Network(Saved, SessionClassifier):
    """Network that a session of the task "fedavg" has trained. Probabilities are the softmax of the scores.

    A `Network` is already fitted and cannot be fitted again. Wrappers of scikit-learn that fit their
    estimator, such as `Pipeline` and `CalibratedClassifierCV`, need
    `sklearn.frozen.FrozenEstimator(network)`.

    Parameters
    ----------
    file : bytes
        Result file of a session, in the safetensors format.
    classes : array-like of shape (n_classes,) or None
        Labels to use instead of the names of the network's classes, in the same order.

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
        If the bytes are not a network file, or the number of classes differs from that of the network.

    Examples
    --------
    In the examples of the methods `network` has two features and two classes, as returned by
    `network, receipt = session.join(X, y, key=key)`.

    >>> Network(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: not a flyswarm network: the file has no header of safetensors
    """

    def __init__(self, file, classes=None):
        """Reads the file of a network. Raises ValueError if it is not a network file."""
        self.file = file
        self.classes = classes
        self._layers = Layers.decode(file)
        names = self._layers.classes
        self.classes_ = np.asarray(names if classes is None else classes)
        if self.classes_.shape != (len(names),):
            raise ValueError(f"{self.classes_.size} classes, expected {len(names)}")
        self.n_features_in_ = self._layers.features
        if self._layers.columns:
            self.feature_names_in_ = np.asarray(self._layers.columns, dtype=object)
        tensors = _tensors.read(file)
        self.weights_ = {name: array for name, array in tensors.items() if not name.startswith("scaler.")}

    @classmethod
    def load(cls, path, classes=None):
        """Reads the file of a network.

        Parameters
        ----------
        path : path
            Result file of a session, such as "wards.safetensors".
        classes : array-like of shape (n_classes,) or None
            As in `Network`.

        Returns
        -------
        network : Network

        Raises
        ------
        ValueError
            If the file is not a network file.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network.save(f"{folder}/wards.safetensors")
        ...     Network.load(f"{folder}/wards.safetensors").digest == network.digest
        True
        """
        return cls(Path(path).read_bytes(), classes)

    def to_onnx(self, path):
        """Writes the network with its scaling as an ONNX graph. `docs/python.md` describes the graph.

        Parameters
        ----------
        path : path
            File to write, which must not exist yet and ends with ".onnx".

        Raises
        ------
        ValueError
            If the file exists or has another ending.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network.to_onnx(f"{folder}/wards.onnx")
        ...     os.path.getsize(f"{folder}/wards.onnx") > 100
        True
        """
        call("onnx", self.file, out=path_text("path", path, needed=True))

    def fit(self, X, y=None):
        """Always raises an error, because a network is already fitted.

        Parameters
        ----------
        X, y
            Not used.

        Raises
        ------
        NotImplementedError
            Always.

        Examples
        --------
        >>> network.fit([[0.0, 1.0]], ["low"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        NotImplementedError: a Network is trained by a session: FrozenEstimator(network) keeps it as it is...
        """
        raise NotImplementedError(
            "a Network is trained by a session: FrozenEstimator(network) keeps it as it is in a pipeline, "
            "network.personalise(X, y) fits it to own rows"
        )

    def personalise(self, X, y, groups=None, **given):
        """Makes a personal classifier from this network and a user's own rows (kNN-Per).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            The user's own rows, as in `predict_proba`.
        y : array-like of shape (n_samples,)
            Their labels.
        groups : array-like of shape (n_samples,) or None
            As in `KNNPerClassifier.fit`.
        **given
            Parameters of `KNNPerClassifier`, such as `k=5`.

        Returns
        -------
        personal : KNNPerClassifier
            A fitted classifier. It compares rows by their values in the last hidden layer.

        Raises
        ------
        ValueError
            As `KNNPerClassifier.fit`.

        Examples
        --------
        >>> own = network.personalise([[0.0, 0.0], [1.0, 1.0]] * 5, ["high", "low"] * 5, k=1)
        >>> own.predict([[0.0, 0.0], [1.0, 1.0]])
        array(['high', 'low'], dtype='<U4')
        """
        from flyswarm._personal import KNNPerClassifier

        return KNNPerClassifier(FrozenEstimator(self), **given).fit(X, y, groups=groups)

    def _personalised(self, X, y, groups):
        """Returns the personal classifier for features in the order of this network."""
        network = Network(self.file, self.classes_)
        names = vars(network).pop("feature_names_in_", None)
        personal = network.personalise(X, y, groups)
        if names is not None:
            network.feature_names_in_ = personal.feature_names_in_ = names
        return personal

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

    def transform(self, X):
        """Computes the values of the last hidden layer, or the scaled features if there is no hidden layer.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict_proba`.

        Returns
        -------
        hidden : ndarray of shape (n_samples, n_units), float32

        Raises
        ------
        ValueError
            As `predict_proba`.

        Examples
        --------
        >>> network.transform([[0.0, 0.0], [1.0, 1.0]])
        array([[0., 0.],
               [1., 1.]], dtype=float32)
        """
        return self._hidden(self._features(X))

    def _probabilities(self, X):
        scores = self._scores(X).astype(float)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _best(self, X):
        return self._scores(X).argmax(axis=1)

    def _scores(self, X):
        return np.concatenate(each(self._features(X), lambda rows, at: self._layers.scores(rows)))

    def _hidden(self, X):
        return np.concatenate(each(X, lambda rows, at: self._layers.represent(rows)))

    def _made(self):
        return self._layers

    def __repr__(self, N_CHAR_MAX=700):
        classes, features = len(self.classes_), self.n_features_in_
        return f"Network(features={features}, classes={classes}, digest='{self.digest[:16]}')"

    def __getstate__(self):
        return {"file": self.file, "classes": self.classes}

    def __setstate__(self, state):
        self.__init__(state["file"], state["classes"])
