"""Label propagation as an estimator."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flyswarm._flyswarm import Propagation
from flyswarm._rows import each, seed_bytes


class LabelPropagation(ClassifierMixin, BaseEstimator):
    """Labels for a mostly unlabelled table, from the labels of near rows.

    Source: Scott, Yeo & Lampert, XCLP, Algorithm 1.

    What one owner of all rows gets is, bit for bit, what the task "xclp" gives to many: rows become codes,
    the Hamming distances of codes a graph of nearest neighbours, and labels spread over it in integers. It
    takes about 24 n^2 bytes for n rows.

    Parameters
    ----------
    bits : int, default=4096
        Bits of a code, a power of two from 64 to 16384.
    neighbours : int, default=10
        Neighbours of a row.
    alpha : float, default=0.99
        How far labels spread, above 0 and at most 0.999.
    steps : int or None, default=None
        Steps in which they do; None is as many as alpha needs.
    power : int, default=1
        Similarities are cosines to this power, 1 to 16.
    balance : bool, default=False
        Each label counts as one over the labels of its class.
    scaling : {"center", "standard", "unit-norm", "soft-bins", "none"}, default="center"
        How features are put on one scale.
    bins : int, default=8
        With soft bins, so many of a feature, 2 to 64.
    seed : int or bytes, default=0
        The public seed, an int from 0 to 2^256 - 1 or 32 bytes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without -1.
    transduction_ : ndarray of shape (n_samples,)
        The label of each row; -1 where none reaches it.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Scores as multiples of 1/64 of each row's sum.
    n_features_in_ : int
        Features of a row.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had some.

    Examples
    --------
    >>> from flyswarm import LabelPropagation
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> LabelPropagation(neighbours=2).fit(X, [0, -1, -1, -1, -1, 1]).transduction_
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        bits=4096,
        neighbours=10,
        alpha=0.99,
        steps=None,
        power=1,
        balance=False,
        scaling="center",
        bins=8,
        seed=0,
    ):
        self.bits = bits
        self.neighbours = neighbours
        self.alpha = alpha
        self.steps = steps
        self.power = power
        self.balance = balance
        self.scaling = scaling
        self.bins = bins
        self.seed = seed

    def fit(self, X, y):
        """Spreads the labels that are known.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            At least two rows of finite numbers below 2^80.
        y : array-like of shape (n_samples,)
            Labels; -1 (among texts "-1") where unknown.

        Returns
        -------
        self : LabelPropagation

        Raises
        ------
        ValueError
            If X or y is no such array, no label is known, or a parameter is out of its range.

        Examples
        --------
        >>> X = [[0.0], [0.1], [5.0], [5.1]]
        >>> LabelPropagation(neighbours=1).fit(X, ["low", "-1", "high", "-1"]).transduction_
        array(['low', 'low', 'high', 'high'], dtype='<U4')
        """
        X, y = validate_data(self, X, y, ensure_min_samples=2)
        check_classification_targets(y)
        unknown = y.astype(str) == "-1"
        if unknown.all():
            raise ValueError("no label is known")
        self.classes_, codes = np.unique(y[~unknown], return_inverse=True)
        labels = np.full(len(y), -1)
        labels[~unknown] = codes
        self._propagation_arguments = (
            np.concatenate(each(X, lambda rows, at: rows)),
            [None if label < 0 else int(label) for label in labels],
            {
                "classes": len(self.classes_),
                "bits": self.bits,
                "k": self.neighbours,
                "alpha": float(self.alpha),
                "steps": self.steps,
                "power": self.power,
                "balance": bool(self.balance),
                "scaling": self.scaling,
                "bins": self.bins,
                "seed": seed_bytes(self.seed),
            },
        )
        self._propagation = self._propagate()
        found = np.array([-1 if label is None else label for label in self._propagation.labels])
        self.transduction_ = np.full(len(y), -1).astype(y.dtype)
        self.transduction_[found >= 0] = self.classes_[found[found >= 0]]
        self.label_distributions_ = self._propagation.scores
        return self

    def predict_proba(self, X):
        """The scores of the nearest rows that were fitted, by their similarity.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows, of those fitted or others.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; all classes alike where no neighbour has a label.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X is no such array or has other features.

        Examples
        --------
        >>> fitted = LabelPropagation(neighbours=1).fit([[0.0], [0.1], [5.0], [5.1]], [0, -1, 1, -1])
        >>> fitted.predict_proba([[0.05]])
        array([[1., 0.]])
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        p = np.concatenate(each(X, lambda rows, at: self._propagation.extend(rows)))
        p[p.sum(axis=1) == 0] = 1 / len(self.classes_)
        return p

    def predict(self, X):
        """The likeliest label of each row, by `predict_proba`.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict_proba`.

        Returns
        -------
        y : ndarray of shape (n_samples,)

        Raises
        ------
        NotFittedError, ValueError
            As `predict_proba`.

        Examples
        --------
        >>> LabelPropagation(neighbours=1).fit([[0.0], [0.1], [5.0], [5.1]], [0, -1, 1, -1]).predict([[5.05]])
        array([1])
        """
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def _propagate(self):
        X, labels, arguments = self._propagation_arguments
        return Propagation(X, labels, **arguments)

    def __getstate__(self):
        # `__setstate__` makes it again from its arguments.
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_propagation"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "_propagation_arguments" in state:
            self._propagation = self._propagate()
