"""Plots of a result, and its report page. matplotlib is imported only when a plot is made."""

import html
from pathlib import Path


class Page:
    """The report page of a session, as `flyswarm join` writes it. A notebook shows the page in the cell.

    Parameters
    ----------
    html : str
        The page as HTML. It loads nothing from the network.

    Examples
    --------
    >>> page = Page("<!doctype html><p>wards</p>")
    >>> page, "wards" in page._repr_html_()
    (Page(27 characters), True)
    """

    def __init__(self, html):
        self.html = html

    def save(self, path):
        """Writes the page to a file. An existing file is replaced.

        Parameters
        ----------
        path : path
            The file, such as "wards.html".

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Page("<p>wards</p>").save(f"{folder}/wards.html")
        ...     pathlib.Path(f"{folder}/wards.html").read_text()
        '<p>wards</p>'
        """
        Path(path).write_text(self.html, "utf-8")

    def __repr__(self):
        return f"Page({len(self.html)} characters)"

    def _repr_html_(self):
        # An HTML frame separates the styles of the page from those of the notebook, and runs no scripts.
        text = html.escape(self.html, quote=True)
        return f'<iframe sandbox srcdoc="{text}" style="width: 100%; height: 40em; border: 0"></iframe>'


def plot(figures, kind=None, ax=None):
    """Draws `figures` of a result. See `Joined.plot`."""
    kinds = {"rounds": rounds, "confusion": confusion, "calibration": calibration}
    if kind is None:
        kind = "rounds" if figures.get("rounds") else "confusion"
    if kind not in kinds:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(kinds)}")
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plot needs matplotlib, which is not installed: pip install matplotlib") from None
    drawn = kinds[kind](figures)
    if ax is None:
        _, ax = pyplot.subplots(layout="constrained")
    drawn(ax)
    return ax


def rounds(figures):
    found = figures.get("rounds")
    if not found:
        raise ValueError('the result has no rounds: only the tasks "fedavg" and "fedavg-xclp" have them')

    def draw(ax):
        numbers = range(1, len(found) + 1)
        (loss,) = ax.plot(numbers, [each["loss"] for each in found], color="C0", label="loss")
        ax.set(xlabel="round", ylabel="loss")
        right = ax.twinx()
        (accuracy,) = right.plot(numbers, [each["accuracy"] for each in found], color="C1", label="accuracy")
        right.set(ylabel="accuracy", ylim=(0, 1))
        ax.legend(handles=[loss, accuracy])

    return draw


def pooled(figures):
    """Returns the figures of the result on held-out rows, those of all peers or those of this peer."""
    found = (figures.get("pooled") or figures.get("held_out") or {}).get("swarm")
    if found is None:
        raise ValueError("the result has no figures of held-out rows: the session holds no rows out")
    return found


def confusion(figures):
    found = pooled(figures)

    def draw(ax):
        names = [each["class"] for each in found["per_class"]]
        matrix = found["confusion"]
        ax.imshow(matrix, cmap="Blues")
        ax.set(xlabel="predicted class", ylabel="class", title="Confusion matrix")
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
        half = max(map(max, matrix)) / 2
        for row, counts in enumerate(matrix):
            for column, count in enumerate(counts):
                color = "white" if count > half else "black"
                ax.text(column, row, str(count), ha="center", va="center", color=color)

    return draw


def calibration(figures):
    found = pooled(figures).get("calibration")
    if not found:
        raise ValueError("the result has no calibration: too few rows are held out")

    def draw(ax):
        stated = [each["stated"] for each in found]
        right = [each["right"] for each in found]
        # After rounding, a limit of the interval can be on the wrong side of the value.
        low = [max(0.0, each["value"] - each["low"]) for each in right]
        high = [max(0.0, each["high"] - each["value"]) for each in right]
        ax.plot([0, 1], [0, 1], color="gray", linestyle=":")
        ax.errorbar(stated, [each["value"] for each in right], [low, high], marker="o")
        ax.set(xlabel="predicted probability", ylabel="observed frequency", title="Calibration")

    return draw
