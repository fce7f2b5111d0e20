"""The three computing members of `xclp` (parties 0, 1 and 2), all in one process, written from section
15e alone.

`vectors` compares the hashes of what each party receives. The vectors of this package are numpy arrays.
Their sums and products wrap mod 2^16 or 2^64, on purpose. """
