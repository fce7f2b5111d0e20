"""The parts that all classifiers share."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from flyswarm._events import SessionWarning
from flyswarm._files import table
from flyswarm._flyswarm import Layers, LearntRows, Model
from flyswarm._labels import codes_of
from flyswarm._rows import each, seed_bytes

# Class index for a label that is not among the classes of the result.
UNKNOWN = 2**16 - 1


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that predicts the class with the highest probability."""

    # Attributes that a pickle does not contain.
    _unpickled: ClassVar[tuple[str, ...]] = ()

    def predict(self, X: Any) -> NDArray[Any]:
        """Predicts the label of each row: the class with the highest probability or score.

        A `FlyNNClassifier` gives all classes the same weight, so that it finds rare classes too. Its
        predicted label can therefore differ from the most probable class.

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
        >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [False, True]).predict([[1.0], [8.0]])
        array([False,  True])
        >>> network.predict([[0.0, 0.0], [1.0, 1.0]])
        array(['low', 'high'], dtype='<U4')
        >>> KNNPerClassifier(part=0.0).fit([[0.0], [1.0], [9.0]], ["a", "a", "b"]).predict([[8.0]])
        array(['b'], dtype='<U1')
        >>> LabelPropagation(neighbours=1).fit([[0.0], [0.1], [5.0], [5.1]], [0, -1, 1, -1]).predict([[5.05]])
        array([1])
        """
        best = self._best(X)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predicts the probability of each class. The docstring of the classifier describes the method.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Finite numbers with magnitudes below 2^80, not scaled. A data frame needs the columns of the frame
            in `fit`, or the columns of the session. If a session made the classifier and describes the
            columns of a table, X can also be a data frame with these columns.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Probabilities. Each row sums to 1; columns are in the order of `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X has a wrong shape or wrong features.

        Examples
        --------
        >>> p = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [0, 1]).predict_proba([[1.0]])
        >>> p.shape, bool(p[0, 0] > 0.5)
        ((1, 2), True)
        >>> p = network.predict_proba([[0.0, 0.0], [1.0, 1.0]])
        >>> p.shape, bool((abs(p.sum(axis=1) - 1) < 1e-9).all())
        ((2, 2), True)
        >>> KNNPerClassifier(part=1.0, k=1).fit([[0.0], [1.0], [5.0]], [0, 0, 1]).predict_proba([[4.0]])
        array([[0., 1.]])
        >>> fitted = LabelPropagation(neighbours=1).fit([[0.0], [0.1], [5.0], [5.1]], [0, -1, 1, -1])
        >>> fitted.predict_proba([[0.05]])
        array([[1., 0.]])
        """
        return self._probabilities(X)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Computes the logarithm of the probability of each class; minus infinity for a probability of 0.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict_proba`.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)

        Raises
        ------
        NotFittedError, ValueError
            As `predict_proba`.

        Examples
        --------
        >>> p = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [0, 1]).predict_log_proba([[1.0]])
        >>> p.shape, bool((p < 0).all())
        ((1, 2), True)
        """
        with np.errstate(divide="ignore"):
            logarithms: NDArray[np.float64] = np.log(self.predict_proba(X))
        return logarithms

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class."""
        raise NotImplementedError

    def _best(self, X: Any) -> NDArray[Any]:
        """Returns the index of the predicted class of each row."""
        best: NDArray[Any] = self.predict_proba(X).argmax(axis=1)
        return best

    def _coded(self, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.uint16]:
        """Returns the index of each label in `classes`, in any order. Raises ValueError for other labels."""
        order = np.argsort(classes, kind="stable")
        codes: NDArray[Any] = order[np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)]
        unknown = classes[codes] != y
        if unknown.any():
            raise ValueError(f"y has the label {y[unknown][0]!r}, expected one of the classes {classes}")
        small: NDArray[np.uint16] = codes.astype(np.uint16)
        return small

    def _seed_bytes(self) -> bytes:
        """Returns the seed of a fit: drawn from `random_state`, or if it is None `seed`, or a random seed."""
        if self.random_state is None and self.seed is not None:
            return seed_bytes(self.seed)
        drawn: bytes = check_random_state(self.random_state).bytes(32)
        return drawn

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # The text is one line, also with a seed of 32 bytes.
        usual = inspect.signature(type(self)).parameters
        given = sorted(self.get_params(deep=False).items())
        changed = [(name, value) for name, value in given if repr(value) != repr(usual[name].default)]
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in changed)})"

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._unpickled}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)
        self._restore()

    def _restore(self) -> None:
        """Restores the attributes that a pickle does not contain."""


# The result of a session: a model or a network.
Made: TypeAlias = Model | Layers


class SessionClassifier(Classifier):
    """A classifier that a session can make. `score` warns if rows were training rows of the session."""

    # A pickle leaves out the hashes of rows, because they must stay at this peer.
    _unpickled: ClassVar[tuple[str, ...]] = ("_learnt",)
    _learnt: LearntRows | None = None

    def _made(self) -> Made:
        """Returns the model or network."""
        raise NotImplementedError

    def _features(self, X: Any) -> NDArray[Any]:
        """Returns the features of rows. A data frame can have the columns that the session describes."""
        check_is_fitted(self)
        if self._is_table(X):
            return self._made().prepare(table(X))
        rows: NDArray[Any] = validate_data(self, X, reset=False)
        return rows

    def _is_table(self, X: Any) -> bool:
        """True if `X` is a data frame with the columns that the session describes, not with the features."""
        made = self._made()
        return made.described and hasattr(X, "columns") and list(X.columns) != made.columns

    def _scores(self, X: Any) -> NDArray[Any]:
        """Returns the scores of each row. The class with the highest score is the prediction."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Computes the scores of each row: logits of a network, or negated novelties of FlyNN.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict_proba`.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) if there are two classes
            Scores. The class with the highest score is the prediction. With two classes there is one number
            for each row: the prediction is the second class if the number is above 0.

        Raises
        ------
        NotFittedError, ValueError
            As `predict_proba`.

        Examples
        --------
        >>> network.decision_function([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]).shape
        (3,)
        >>> bool(FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [0, 1]).decision_function([[8.0]])[0] > 0)
        True
        """
        scores = self._scores(X).astype(np.float64)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy on labelled rows. Warns if some of the rows are this peer's training rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict`.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows.

        Returns
        -------
        accuracy : float

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [0, 1]).score([[1.0], [8.0]], [0, 1])
        1.0
        """
        if self._learnt is not None:
            warn(self._learnt, self._features(X), codes_of(y, self._made().classes, UNKNOWN))
        return float(super().score(X, y, sample_weight))


def warn(learnt: LearntRows, X: NDArray[Any], labels: NDArray[np.uint16]) -> None:
    """Warns if some rows of `X`, with these class indices, are training rows."""
    found = each(X, lambda rows, at: learnt.overlap(rows, labels[at : at + len(rows)]))
    text = LearntRows.warning(len(X), sum(part[0] for part in found), sum(part[1] for part in found))
    if text is not None:
        warnings.warn(text, SessionWarning, stacklevel=3)


def shown(value: Any) -> str:
    """Returns a parameter as a Python expression in one line."""
    return f"bytes.fromhex({value.hex()!r})" if isinstance(value, bytes) else repr(value)
