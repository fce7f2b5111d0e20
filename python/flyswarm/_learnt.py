"""Warns before a score on rows that a session has used for training."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped]

from flyswarm._events import SessionWarning
from flyswarm._flyswarm import LearntRows
from flyswarm._rows import each

# Code of a label that is not among the classes of the result.
UNKNOWN = 2**16 - 1


def warn(
    learnt: LearntRows | None, X: NDArray[Any], y: ArrayLike, classes: Sequence[str]
) -> None:
    """Warns if rows of the array `X` with the labels `y` equal training rows."""
    if learnt is None:
        return
    codes = {name: code for code, name in enumerate(classes)}
    labels = np.array([codes.get(str(label), UNKNOWN) for label in np.asarray(y)], dtype=np.uint16)
    found = each(X, lambda rows, at: learnt.overlap(rows, labels[at : at + len(rows)]))
    text = LearntRows.warning(len(X), sum(part[0] for part in found), sum(part[1] for part in found))
    if text is not None:
        warnings.warn(text, SessionWarning, stacklevel=3)


class WarningClassifier(ClassifierMixin):  # type: ignore[misc]
    """A classifier that warns before it scores training rows of its session."""

    def _compared(self, X: Any) -> tuple[NDArray[Any], Sequence[str]]:
        """Returns the rows in the form that the session used, and its classes."""
        raise NotImplementedError

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy on labelled rows. Warns if some are this peer's training rows in the session.

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
        if (learnt := getattr(self, "_learnt", None)) is not None:
            rows, classes = self._compared(X)
            warn(learnt, rows, y, classes)
        return float(super().score(X, y, sample_weight))
