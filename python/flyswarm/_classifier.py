"""The FlyNN classifier as an estimator."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flyswarm._arguments import multiple, whole
from flyswarm._base import SessionClassifier
from flyswarm._flyswarm import Counter
from flyswarm._rows import each, grouped

# Scalings that use the means and standard deviations of all rows.
MEASURED = ("center", "standard", "soft-bins")


class FlyNNClassifier(SessionClassifier):
    """Fruit-fly nearest-neighbour classifier (Ram & Sinha, Algorithm 1).

    Each row is projected by `m` sparse random projections. Its hash has `m` bits, and the bits of the `rho`
    largest projections are set. The model counts, for each class, how often the rows of the class set each
    bit. Training is a sum of integers, so the sum of the models of several parts of the rows is exactly the
    model of all rows.

    The probability of a class is computed from the share of the class in the rows and from the novelty of the
    row to the class. `fit`, or the session that made the model, calibrates the weight of the novelties on
    held-out rows. Without calibration the probabilities are cautious.

    Parameters
    ----------
    m : int or str, default=16384
        Number of bits of a hash, or a multiple such as "256d"; d is the number of values in a scaled row. The
        counts need m x n_classes x 4 bytes.
    s : int or str or None, default=None
        Number of values of a scaled row that each projection adds up, from 1 to d, or a multiple such as
        "0.1d". None means 2, or 1 if d is 1.
    rho : int or str, default=256
        Number of bits that are set in a hash, 1 to m, or a multiple such as "0.001m".
    gamma : float, default=0.9
        Factor that reduces a bit's weight each time the bit is set, from 0 to below 1. The "log" scores add
        1 - gamma to each count.
    readout : {"balanced-log", "log", "balanced-decay", "decay"}, default="balanced-log"
        Kind of score that a prediction computes from the counts. "decay" is the score of the paper.
    scaling : {"soft-bins", "standard", "center", "unit-norm", "range", "none"}, default="soft-bins"
        Scaling of the features. The first three use the means of all rows.
    bins : int, default=8
        Number of soft bins of each feature, 2 to 64.
    bounds : (lower, upper) or None, default=None
        For "range": two numbers, or two sequences of shape (n_features,).
    densify : bool, default=False
        If True, rows are first rotated at random.
    seed : int or bytes or None, default=0
        Public seed, an int from 0 to 2^256 - 1 or 32 bytes. None draws one in each fit. Models can be merged
        only if their seeds are equal.
    calibrate : bool, default=True
        If True, `fit` calibrates `predict_proba` on a fifth of the rows (at most 1,000) with a model of the
        other rows. The predicted labels do not change. `partial_fit` and `merge` do not calibrate.
    random_state : int, RandomState or None, default=None
        If given, each fit draws its seed from `random_state`, and `seed` is not used.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features of a row.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names. Every later call checks them.
    model_ : Model
        The model, in the form that a session writes.

    Examples
    --------
    >>> from flyswarm import FlyNNClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = FlyNNClassifier(m=2048, rho=32).fit(X, y)
    >>> classifier.predict(X[[0, 75, 100]])
    array([0, 1, 2])
    """

    def __init__(
        self,
        m=16384,
        s=None,
        rho=256,
        gamma=0.9,
        readout="balanced-log",
        scaling="soft-bins",
        bins=8,
        bounds=None,
        densify=False,
        seed=0,
        calibrate=True,
        random_state=None,
    ):
        self.m = m
        self.s = s
        self.rho = rho
        self.gamma = gamma
        self.readout = readout
        self.scaling = scaling
        self.bins = bins
        self.bounds = bounds
        self.densify = densify
        self.seed = seed
        self.calibrate = calibrate
        self.random_state = random_state

    def fit(self, X, y, groups=None):
        """Fits the classifier to labelled rows. An earlier fit is discarded.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Finite numbers with magnitudes below 2^80. A float32 array in C order is not copied.
        y : array-like of shape (n_samples,)
            Labels of at least two classes: integers, strings or booleans.
        groups : array-like of shape (n_samples,) or None
            Group of each row, such as the patient. Rows of one group are never split between training and
            calibration.

        Returns
        -------
        self : FlyNNClassifier

        Raises
        ------
        ValueError
            If X, y or groups has a wrong shape, or a parameter is out of range.

        Examples
        --------
        >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).predict([[8.0]])
        array(['high'], dtype='<U4')
        """
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes[0]!r}, expected at least 2")
        groups = grouped(groups, len(codes))
        self.classes_ = classes
        self._kept = self._learnt = None
        self._drawn = self._seed_bytes()
        self._model = self._learn([(X, codes)])
        if self.calibrate:
            rows = np.ascontiguousarray(X, dtype=np.float32)
            self._model = self._model.calibrate(rows, codes.astype(np.uint16), groups)
        return self

    def partial_fit(self, X, y, classes=None):
        """Fits the classifier to additional rows.

        The result equals, bit for bit, the result of one `fit` to all rows with `calibrate=False`.

        The scalings "center", "standard" and "soft-bins" use the means of all rows. With these scalings the
        classifier keeps the rows as float32, also in a pickle, and computes the model when it is needed next.
        `fit` and `from_model` do not keep rows: after these methods the means stay fixed, and `partial_fit`
        scales new rows with these means.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `fit`.
        y : array-like of shape (n_samples,)
            Labels, all in `classes`.
        classes : array-like of shape (n_classes,) or None
            All labels that can occur. Required in the first call.

        Returns
        -------
        self : FlyNNClassifier

        Raises
        ------
        ValueError
            As `fit`. Also if `classes` is missing in the first call, or differs from that of the first call.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> whole = FlyNNClassifier(m=512, rho=16, calibrate=False).fit(X, y)
        >>> parts = FlyNNClassifier(m=512, rho=16)
        >>> for part in np.array_split(np.arange(150), 7):
        ...     parts = parts.partial_fit(X[part], y[part], classes=[0, 1, 2])
        >>> parts.model_.digest == whole.model_.digest
        True
        """
        first = not self.__sklearn_is_fitted__()
        if classes is not None:
            classes = np.unique(classes)
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(f"classes is {classes}, expected {self.classes_} as in the first call")
        elif first:
            raise ValueError("classes must be passed on the first call to partial_fit")
        X, y = validate_data(self, X, y, reset=first)
        check_classification_targets(y)
        known = classes if first else self.classes_
        codes = self._coded(y, known)
        if first:
            self.classes_, self._model, self._kept = known, None, None
            self._drawn = self._seed_bytes()
        if self.scaling in MEASURED and (first or self._kept is not None):
            rows = each(X, lambda rows, at: rows.copy())
            parts = [(np.concatenate(rows), codes)]
            if first:
                self._counter().measure(parts[0][0][:1])
            self._kept, self._model = (self._kept or []) + parts, None
        else:
            counter = self._counter() if first else self._model.counter()
            self._model = self._learn([(X, codes)], counter)
        return self

    def novelties(self, X):
        """Computes how novel each row is to each class (Algorithm 1 of the paper, line 12).

        The class with the lowest novelty is the prediction.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in `predict`.

        Returns
        -------
        novelties : ndarray of shape (n_samples, n_classes)
            With the readout "decay" a novelty is from 0 to rho.

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], [0, 1]).novelties([[1.0]]).shape
        (1, 2)
        """
        X, model = self._features(X), self.model_
        return np.concatenate(each(X, lambda rows, at: model.novelties(rows)))

    def merge(self, other):
        """Adds two models. The result is exactly the model of the rows of both classifiers.

        With the scalings "center", "standard" and "soft-bins" the models need equal means, unless both
        classifiers were fitted by `partial_fit`, which keeps the rows.

        Parameters
        ----------
        other : FlyNNClassifier
            Fitted classifier with the same parameters, classes and columns.

        Returns
        -------
        merged : FlyNNClassifier
            New classifier. `self` and `other` do not change.

        Raises
        ------
        NotFittedError
            If one of the classifiers is not fitted.
        ValueError
            If parameters, classes or columns differ. The message names the first difference.

        Examples
        --------
        >>> one = FlyNNClassifier(scaling="none", m=64, rho=4).fit([[0.0], [9.0]], [0, 1])
        >>> two = FlyNNClassifier(scaling="none", m=64, rho=4).fit([[1.0], [8.0]], [0, 1])
        >>> both = FlyNNClassifier(scaling="none", m=64, rho=4)
        >>> both = both.fit([[0.0], [9.0], [1.0], [8.0]], [0, 1, 0, 1])
        >>> one.merge(two).model_.digest == both.model_.digest
        True
        """
        for one in (self, other):
            check_is_fitted(one)
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(f"the classes are {other.classes_}, expected {self.classes_}")
        merged = type(self)(**self.get_params())
        for name in ("classes_", "n_features_in_", "feature_names_in_", "_drawn"):
            if hasattr(self, name):
                setattr(merged, name, getattr(self, name))
        # This check is first, because its error names the difference.
        if self._kept is None or other._kept is None:
            merged._kept, merged._model = None, self.model_.merge(other.model_)
            return merged
        if self._drawn != other._drawn:
            raise ValueError("the seeds of the models differ: only models made alike add up")
        for name, value in self.get_params().items():
            if value != other.get_params()[name]:
                raise ValueError(f"{name} is {other.get_params()[name]!r}, expected {value!r}")
        if self.model_.columns != other.model_.columns or self.n_features_in_ != other.n_features_in_:
            raise ValueError("the models differ in their columns: only models made alike add up")
        merged._kept, merged._model = self._kept + other._kept, None
        return merged

    @classmethod
    def from_model(cls, model, classes=None):
        """Makes an estimator from a model, such as the result of a session.

        Parameters
        ----------
        model : Model
            The model.
        classes : array-like of shape (n_classes,) or None
            Labels to use instead of the names of the model's classes, in the same order.

        Returns
        -------
        classifier : FlyNNClassifier

        Raises
        ------
        ValueError
            If the number of classes differs from that of the model.

        Examples
        --------
        >>> fitted = FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"])
        >>> FlyNNClassifier.from_model(fitted.model_).predict([[8.0]])
        array(['high'], dtype='<U4')
        """
        names = np.asarray(model.classes if classes is None else classes)
        if len(names) != len(model.classes):
            raise ValueError(f"{len(names)} classes, expected {len(model.classes)}")
        made = cls(**model.setting, calibrate=model.calibrated)
        made.classes_, made.n_features_in_ = names, model.features
        if model.columns:
            made.feature_names_in_ = np.asarray(model.columns, dtype=object)
        made._model, made._kept, made._drawn = model, None, made._seed_bytes()
        return made

    @property
    def model_(self):
        """The `Model`. If the classifier keeps rows, it computes the model on access.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> FlyNNClassifier(m=64, rho=4).fit([[0.0], [9.0]], ["low", "high"]).model_.counts.shape
        (2, 64)
        """
        check_is_fitted(self)
        if self._model is None:
            self._model = self._learn(self._kept)
        return self._model

    def __sklearn_is_fitted__(self):
        return getattr(self, "_model", None) is not None or getattr(self, "_kept", None) is not None

    def _made(self):
        return self.model_

    def _best(self, X):
        X, model = self._features(X), self.model_
        return np.concatenate(each(X, lambda rows, at: model.predict(rows)))

    def _probabilities(self, X):
        X, model = self._features(X), self.model_
        return np.concatenate(each(X, lambda rows, at: model.probabilities(rows)))

    def _scores(self, X):
        return -self.novelties(X)

    def _counter(self):
        """Returns a counter without rows. Raises ValueError if a parameter is out of range."""
        lo, hi = (np.atleast_1d(bound) for bound in (self.bounds if self.bounds is not None else ((), ())))
        bins = whole("bins", self.bins, 2, 2**16 - 1)
        width = self.n_features_in_ * (bins if self.scaling == "soft-bins" else 1)
        d = 1 << (width - 1).bit_length() if self.densify else width
        m = multiple("m", self.m, "d", d, 1)
        return Counter(
            features=self.n_features_in_,
            classes=[str(name) for name in self.classes_],
            m=m,
            s=min(2, width) if self.s is None else multiple("s", self.s, "d", d, 2),
            rho=multiple("rho", self.rho, "m", m, 2),
            seed=self._drawn,
            densify=self.densify,
            scaling=self.scaling,
            bins=bins,
            lo=[float(x) for x in lo],
            hi=[float(x) for x in hi],
            score=self.readout,
            gamma=self.gamma,
        )

    def _learn(self, parts, counter=None):
        """Adds the rows of all `parts` to `counter`, or to a new counter. Returns the counter's model."""
        counter = self._counter() if counter is None else counter
        if self.scaling in MEASURED:
            for X, _ in parts:
                each(X, lambda rows, at: counter.measure(rows))
        for X, codes in parts:
            codes = codes.astype(np.uint16)
            each(X, lambda rows, at, codes=codes: counter.add(rows, codes[at : at + len(rows)]))
        return counter.model([str(name) for name in getattr(self, "feature_names_in_", ())])
