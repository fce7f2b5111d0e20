"""The three computing parties of `xclp`, all in one process, written from section 15e alone.

`vectors` compares the hashes of what each party receives. The vectors of this package are numpy arrays.
Their sums and products are meant to be mod 2^16 or 2^64.
"""
