"""Estimates the security of the lattice scheme of `hamming = "phe"` against the primal attack.

    python3 lab/scripts/lattice-estimate.py

Prints block size and cost of the primal attack on Ring-LWE as plain LWE (Alkim, Ducas, Poeppelmann and
Schwabe, 2016; Albrecht, Goepfert, Virdia and Wunderer, 2017). The secret is scaled to the size of the errors
(Bai and Galbraith, 2014). The block size is the least b for which some number m of samples satisfies

    sqrt(b) sigma <= delta^(2 b - d) (q^m w^n)^(1 / d)

where d = m + n + 1, and w is the ratio of the standard deviations of error and secret.

The first cost follows the Homomorphic Encryption Standard (2018): 8 d calls of 2^(0.292 b + 16.4) operations
each. The second is core-SVP with one call, which favours the attacker: 2^(0.292 b) (Becker, Ducas, Gama and
Laarhoven, 2016), or 2^(0.265 b) with a quantum computer.
"""

import math

N = 4096


def delta(b):
    return (b / (2 * math.pi * math.e) * (math.pi * b) ** (1 / b)) ** (1 / (2 * (b - 1)))


def breaks(b, log_q, error, secret):
    log_w, log_delta = math.log2(error / secret), math.log2(delta(b))
    least = math.log2(error * math.sqrt(b))
    for m in range(N // 4, 2 * N, 16):
        d = m + N + 1
        if least <= (2 * b - d) * log_delta + (m * log_q + N * log_w) / d:
            return d
    return None


def block_size(log_q, error, secret):
    low, high = 60, 4000
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(middle, log_q, error, secret) else (middle, high)
    return high, breaks(high, log_q, error, secret)


ERROR, SECRET = math.sqrt(10.5), math.sqrt(2 / 3)
print("log2 q   block size   dimension   2^ standard   2^ core-SVP   2^ quantum")
for log_q in (100, 109):
    b, d = block_size(log_q, ERROR, SECRET)
    standard = 0.292 * b + 16.4 + math.log2(8 * d)
    print(f"{log_q:6}   {b:10}   {d:9}   {standard:11.0f}   {0.292 * b:11.0f}   {0.265 * b:10.0f}")
