"""Results that are files."""

import os
from pathlib import Path


class Saved:
    """A result with its file in memory.

    Attributes
    ----------
    file : bytes
        The file, in the safetensors format.
    """

    file: bytes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file. An existing file is replaced.

        The program `flyswarm` reads the file of a `Network`. Every peer needs the file of a `Declared`, next
        to the session file or as the argument `initial`.

        Parameters
        ----------
        path : path
            The file, such as "wards.safetensors".

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> network.save("missing/wards.safetensors")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        FileNotFoundError: ...
        """
        Path(path).write_bytes(self.file)
