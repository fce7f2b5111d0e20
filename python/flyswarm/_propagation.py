"""Label propagation as an estimator."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from flyswarm._arguments import whole
from flyswarm._base import Classifier
from flyswarm._flyswarm import Propagation
from flyswarm._rows import each


class LabelPropagation(Classifier):
    """Label propagation: labels a mostly unlabelled table from the labels of similar rows.

    Source: Scott, Yeo & Lampert, XCLP, Algorithm 1.

    Each row becomes a binary code. The Hamming distances of the codes give a graph of nearest neighbours, and
    labels spread over this graph in integer arithmetic. The result equals, bit for bit, the result of a
    session of the task "xclp" with the same rows. Fitting n rows needs about 24 n^2 bytes of memory.

    Probabilities come from the scores of the nearest fitted rows, weighted by similarity. All classes have
    the same probability if no neighbour has a label.

    Parameters
    ----------
    bits : int, default=4096
        Number of bits of a code, a power of two from 64 to 16384.
    neighbours : int, default=10
        Number of neighbours of a row.
    alpha : float, default=0.99
        Propagation parameter of the paper, above 0 and at most 0.999. With a larger alpha, labels spread
        further.
    steps : int or None, default=None
        Number of propagation steps. None means the number that alpha requires.
    power : int, default=1
        Exponent of the similarities, 1 to 16. A similarity is a cosine to this power.
    balance : bool, default=False
        If True, each label has the weight 1 / (number of labels of its class).
    scaling : {"center", "standard", "unit-norm", "soft-bins", "none"}, default="center"
        Scaling of the features.
    bins : int, default=8
        Number of soft bins of each feature, 2 to 64. Used with the scaling "soft-bins".
    seed : int or bytes or None, default=0
        Public seed, an int from 0 to 2^256 - 1 or 32 bytes. None draws one in each fit.
    random_state : int, RandomState or None, default=None
        If given, each fit draws its seed from `random_state`, and `seed` is not used.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without -1.
    transduction_ : ndarray of shape (n_samples,)
        Label of each row; -1 if no label reaches the row.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Scores. The score of a class is a multiple of 1/64 of the sum of its row.
    n_features_in_ : int
        Number of features of a row.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had names.

    Examples
    --------
    >>> from flyswarm import LabelPropagation
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> LabelPropagation(neighbours=2).fit(X, [0, -1, -1, -1, -1, 1]).transduction_
    array([0, 0, 0, 1, 1, 1])
    """

    # `_restore` computes the propagation again from its arguments.
    _unpickled = ("_propagation",)

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
        random_state=None,
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
        self.random_state = random_state

    def fit(self, X, y):
        """Propagates the known labels to all rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            At least two rows of finite numbers with magnitudes below 2^80.
        y : array-like of shape (n_samples,)
            Labels. Unknown labels are -1, or "-1" if labels are strings.

        Returns
        -------
        self : LabelPropagation

        Raises
        ------
        ValueError
            If X or y has a wrong shape, no label is known, or a parameter is out of range.

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
                "bits": whole("bits", self.bits, 64),
                "k": whole("neighbours", self.neighbours),
                "alpha": float(self.alpha),
                "steps": None if self.steps is None else whole("steps", self.steps),
                "power": whole("power", self.power),
                "balance": bool(self.balance),
                "scaling": self.scaling,
                "bins": whole("bins", self.bins, 2, 2**16 - 1),
                "seed": self._seed_bytes(),
            },
        )
        self._propagation = self._propagate()
        found = np.array([-1 if label is None else label for label in self._propagation.labels])
        self.transduction_ = np.full(len(y), -1).astype(y.dtype)
        self.transduction_[found >= 0] = self.classes_[found[found >= 0]]
        self.label_distributions_ = self._propagation.scores
        return self

    def _probabilities(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        p = np.concatenate(each(X, lambda rows, at: self._propagation.extend(rows)))
        p[p.sum(axis=1) == 0] = 1 / len(self.classes_)
        return p

    def _propagate(self):
        X, labels, arguments = self._propagation_arguments
        return Propagation(X, labels, **arguments)

    def _restore(self):
        if "_propagation_arguments" in vars(self):
            self._propagation = self._propagate()
