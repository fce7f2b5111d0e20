"""kNN-Per as an estimator."""

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from flyswarm._arguments import whole
from flyswarm._base import Classifier, SessionClassifier
from flyswarm._classifier import FlyNNClassifier
from flyswarm._flyswarm import Datastore, best_part, folds
from flyswarm._network import Network
from flyswarm._rows import each, grouped


class KNNPerClassifier(Classifier):
    """Classifier that is personalised with a user's own rows (Marfoq et al., kNN-Per, ICML 2022, section 3).

    The probabilities from the k nearest own rows are mixed with those of a classifier: part x neighbours + (1
    - part) x classifier. To personalise the classifier of a session, pass
    `sklearn.frozen.FrozenEstimator(classifier)`. A frozen classifier is not fitted again.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Classifier with `predict_proba`. `fit` fits it to the rows; a `Network` is not fitted again. None
        means a `FlyNNClassifier`.
    represent : callable or None, default=None
        Function from an array of rows to an array of representations of shape (n_samples, width). None
        uses the hidden layer of a `Network`. For other classifiers it subtracts the mean of each feature and
        divides by its standard deviation.
    k : int, default=10
        Number of neighbours that vote, 1 to 1024.
    scale : float, default=1.0
        Divisor of the distances, above 0 and at most 1e9.
    part : float or None, default=None
        Weight of the neighbours, 0 to 1. None chooses the weight by cross-validation.
    cv : int, default=5
        Number of folds of this cross-validation, at least 2.
    seed : int or bytes or None, default=0
        Seed that assigns rows to folds, an int from 0 to 2^256 - 1 or 32 bytes. None draws one in each fit.
    random_state : int, RandomState or None, default=None
        If given, each fit draws its seed from `random_state`, and `seed` is not used.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels of `estimator_`.
    estimator_ : classifier
        The fitted classifier.
    part_ : float
        Weight of the neighbours.
    n_features_in_ : int
        Number of features of a row.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names.

    Examples
    --------
    >>> from flyswarm import FlyNNClassifier, KNNPerClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> shared = FlyNNClassifier(m=512, rho=16).fit(X, y)
    >>> own = KNNPerClassifier(FrozenEstimator(shared), k=3).fit(X[::5], y[::5])
    >>> own.predict(X[[0, 75, 149]])
    array([0, 1, 2])
    """

    # `_restore` makes the store again from keys and class indices.
    _unpickled = ("_store",)

    def __init__(
        self,
        estimator=None,
        represent=None,
        k=10,
        scale=1.0,
        part=None,
        cv=5,
        seed=0,
        random_state=None,
    ):
        self.estimator = estimator
        self.represent = represent
        self.k = k
        self.scale = scale
        self.part = part
        self.cv = cv
        self.seed = seed
        self.random_state = random_state

    def fit(self, X, y, groups=None):
        """Fits the classifier, stores the rows, and chooses the weight of the neighbours.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Finite numbers with magnitudes below 2^80.
        y : array-like of shape (n_samples,)
            Labels. With a frozen estimator, all labels must be among its classes.
        groups : array-like of shape (n_samples,) or None
            Group of each row, such as the patient. Rows of one group are never split between training and
            the choice of the weight. If `fit` of the estimator takes groups, they are passed to it.

        Returns
        -------
        self : KNNPerClassifier

        Raises
        ------
        ValueError
            If X, y or groups has a wrong shape, a label is not among the classes, or a parameter is out of
            range.

        Examples
        --------
        >>> KNNPerClassifier(part=1.0, k=1).fit([[0.0], [1.0], [5.0]], [0, 0, 1]).predict([[4.0]])
        array([1])
        """
        if self.part is not None and not 0 <= self.part <= 1:
            raise ValueError(f"part is {self.part}, expected 0 to 1")
        base = FlyNNClassifier() if self.estimator is None else self.estimator
        if isinstance(base, Network):
            base = FrozenEstimator(base)
        # A data frame keeps the column names that the classifier was trained with.
        rows, table = X, has_table(base, X)
        X, y = validate_data(self, base.estimator._features(X) if table else X, y)
        check_classification_targets(y)
        if table and hasattr(base, "feature_names_in_"):
            self.feature_names_in_ = base.feature_names_in_
        rows = rows if hasattr(rows, "columns") else X
        pairs = grouped(groups, len(y))
        groups = None if groups is None else np.asarray(groups, dtype=object)
        self.estimator_ = self._fitted(base, rows, y, groups, slice(None))
        self.classes_ = self.estimator_.classes_
        codes = self._coded(y, self.classes_)
        wide = X.astype(np.float64)
        self._mean, deviation = wide.mean(axis=0), wide.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1)
        self._keys, self._codes = self._represented(X), codes
        self._store = Datastore(self._keys, codes, len(self.classes_))
        self._store.said(self._keys[:1], whole("k", self.k), self.scale)
        self.part_ = (
            self._chosen(base, rows, y, codes, groups, pairs) if self.part is None else float(self.part)
        )
        return self

    @staticmethod
    def _fitted(base, X, y, groups, rows):
        """Returns a copy of `base`, fitted to `X` with the entries `rows` of `y` and `groups`."""
        takes = groups is not None and has_fit_parameter(base, "groups")
        return clone(base).fit(X, y[rows], **({"groups": groups[rows]} if takes else {}))

    def _chosen(self, base, X, y, codes, groups, pairs):
        """Returns the weight that gives the most right predictions in cross-validation.

        The model for a row is fitted without the row and without the other rows of its group.
        """
        whole("cv", self.cv, 2)
        units = len(X) if pairs is None else len(pairs[0])
        if units < 3:
            return 1.0
        near, network = np.zeros((2, len(X), len(self.classes_)))
        count = min(self.cv, units) if self.cv > 1 else self.cv
        for test in folds(codes, count, self._seed_bytes(), pairs):
            rest = np.setdiff1d(np.arange(len(X)), test)
            store = Datastore(self._keys[rest], codes[rest], len(self.classes_))
            near[test] = store.said(self._keys[test], self.k, self.scale)
            if len(np.unique(y[rest])) < 2:
                continue
            fitted = self._fitted(base, _safe_indexing(X, rest), y, groups, rest)
            columns = self._coded(fitted.classes_, self.classes_)
            network[np.ix_(test, columns)] = fitted.predict_proba(_safe_indexing(X, test))
        return best_part(near, network, codes)

    def _probabilities(self, X):
        check_is_fitted(self)
        base, rows = self.estimator_, X
        X = base.estimator._features(X) if has_table(base, X) else validate_data(self, X, reset=False)
        said = self._store.said(self._represented(X), self.k, self.scale)
        rows = rows if hasattr(rows, "columns") else X
        return self.part_ * said + (1 - self.part_) * base.predict_proba(rows)

    def _represented(self, X):
        if self.represent is not None:
            return np.ascontiguousarray(self.represent(X), dtype=np.float32)
        frozen = getattr(self.estimator_, "estimator", None)
        if isinstance(frozen, Network):
            return frozen._hidden(X)
        moved = each(X, lambda rows, at: ((rows - self._mean) / self._deviation).astype(np.float32))
        return np.concatenate(moved)

    def _restore(self):
        if "_keys" in vars(self):
            self._store = Datastore(self._keys, self._codes, len(self.classes_))


def has_table(base, X):
    """True if `X` is a data frame with the columns that the session of the classifier `base` describes."""
    shared = getattr(base, "estimator", None)
    return isinstance(shared, SessionClassifier) and shared._is_table(X)
