"""Checks the vectors `ot` and `phe`: distances between the rows of two peers."""

import hashlib
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from primitives import Refused
from primitives.crypto import FIELD, ORDER, Stream, ballot_bytes, derive, le, tagged
from primitives.encoding import Ballot

from vectors.common import check, vectors
from vectors.xclp import hex16, pieces_of

D = -121665 * pow(121666, -1, FIELD) % FIELD


SQRT_M1 = pow(2, (FIELD - 1) // 4, FIELD)


ZERO = (0, 1, 1, 0)


def sqrt_ratio(u, v):
    """Returns whether u / v is a square, and the non-negative root of u / v or of SQRT_M1 u / v.

    Source: RFC 9496, section 4.2.
    """
    r = u * pow(v, 3, FIELD) * pow(u * pow(v, 7, FIELD), (FIELD - 5) // 8, FIELD) % FIELD
    check = v * r * r % FIELD
    if check in (-u % FIELD, -u * SQRT_M1 % FIELD):
        r = r * SQRT_M1 % FIELD
    return check in (u % FIELD, -u % FIELD), FIELD - r if r % 2 else r


def ristretto_decode(data):
    """Decodes a point (RFC 9496, section 4.3.1)."""
    s = int.from_bytes(data, "little")
    u1, u2 = (1 - s * s) % FIELD, (1 + s * s) % FIELD
    v = (-D * u1 * u1 - u2 * u2) % FIELD
    square, root = sqrt_ratio(1, v * u2 * u2 % FIELD)
    x = 2 * s * root * u2 % FIELD
    x = FIELD - x if x % 2 else x
    y = u1 * root * root * u2 * v % FIELD
    if s >= FIELD or s % 2 or not square or x * y % FIELD % 2 or y == 0:
        raise Refused("no-point")
    return x, y, 1, x * y % FIELD


def ristretto_encode(point):
    """Encodes a point (RFC 9496, section 4.3.2)."""
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % FIELD, x * y % FIELD
    _, root = sqrt_ratio(1, u1 * u2 * u2 % FIELD)
    d1, d2 = root * u1 % FIELD, root * u2 % FIELD
    inverse = d1 * d2 * t % FIELD
    if t * inverse % FIELD % 2:
        _, factor = sqrt_ratio(1, -1 - D)
        x, y, d = y * SQRT_M1 % FIELD, x * SQRT_M1 % FIELD, d1 * factor % FIELD
    else:
        d = d2
    if x * inverse % FIELD % 2:
        y = -y
    s = d * (z - y) % FIELD
    return le(FIELD - s if s % 2 else s, 32)


def plus(p, q):
    """Adds points of the twisted Edwards curve in extended coordinates (Hisil et al., 2008)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[3] * q[3], 2 * p[2] * q[2]
    e, f, g, h = (b - a) % FIELD, (d - c) % FIELD, (d + c) % FIELD, (b + a) % FIELD
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def minus(p):
    return -p[0] % FIELD, p[1], p[2], -p[3] % FIELD


def times(n, p):
    out = ZERO
    for bit in bin(n)[2:]:
        out = plus(out, out)
        out = plus(out, p) if bit == "1" else out
    return out


def bits_of(data):
    return [byte >> i & 1 for byte in data for i in range(8)]


def from_bits(bits):
    return bytes(sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))


def check_ot():
    file = vectors("ot")
    for cut in file["cuts"]:
        check("pieces", pieces_of(cut["receiver"], cut["sender"], cut["bits"]) == cut["pieces"])
    ballot = ballot_bytes(Ballot(*file["ballot"]))
    context = tagged("oblivious transfer", bytes.fromhex(file["session"]), ballot, le(file["receiver"], 2), le(file["sender"], 2))
    check("context of transfers", context.hex() == file["context"])
    base = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, FIELD) % FIELD)
    base = (*base, 1, base[0] * base[1] % FIELD)
    mine, theirs = map(bytes.fromhex, file["secrets"])
    scalars = lambda secret, n: [int.from_bytes(s, "little") % ORDER for s in [Stream(secret, "base transfer", b"", 64 * i).take(64) for i in range(n)]]
    (a,), b = scalars(mine, 1), scalars(theirs, 128)
    sent = times(a, base)
    message = ristretto_encode(sent)
    chosen = bits_of(Stream(theirs, "base choices", b"").take(16))
    points = [plus(times(x, base), sent) if bit else times(x, base) for x, bit in zip(b, chosen)]
    reply = [ristretto_encode(point) for point in points]
    check("points of base transfers", [message.hex(), b"".join(reply).hex()] == [file["base"], file["choices"]])
    check("points decode", all(ristretto_encode(ristretto_decode(data)) == data for data in reply))
    for data in file["no_points"]:
        try:
            refused = bytes.fromhex(data) == bytes(32)
            ristretto_decode(bytes.fromhex(data))
        except Refused:
            refused = True
        check("no point", refused)
    key = lambda i, shared: tagged("base transfer", context, le(i, 4), message, reply[i], ristretto_encode(shared))
    pairs = [[key(i, times(a, point)), key(i, times(a, plus(point, minus(sent))))] for i, point in enumerate(points)]
    keys = [key(i, times(x, sent)) for i, x in enumerate(b)]
    check("base keys", [b"".join(map(b"".join, pairs)).hex(), b"".join(keys).hex()] == [file["pairs"], file["chosen"]])
    check("base keys that were chosen", keys == [pair[bit] for pair, bit in zip(pairs, chosen)])

    cipher = Cipher(algorithms.AES128(derive(context, "transfer hash", b"")[:16]), modes.ECB()).encryptor()
    xor = lambda p, q: bytes(x ^ y for x, y in zip(p, q))
    codes, others = [[bits_of(bytes.fromhex(code)) for code in file[of]] for of in ("receiver_codes", "sender_codes")]
    bits, s = file["bits"], len(others)

    def hashed(j, x):
        image, out = cipher.update(x), b""
        for c in range(-(-s // 8)):
            out += xor(cipher.update(xor(image, le(j, 8) + le(c, 8))), image)
        return struct.unpack(f"<{s}H", out[: 2 * s])

    one, two = [[0] * s for _ in codes], [[sum(code) for code in others] for _ in codes]
    for (row, first, words), piece in zip(pieces_of(len(codes), s, bits), file["pieces"], strict=True):
        at, n = row * bits + 64 * first, 64 * words
        column = lambda secret: bits_of(Stream(secret, "transfer column", b"", at // 8).take(n // 8))
        choices = codes[row][64 * first :][:n]
        zeros = [column(pair[0]) for pair in pairs]
        u = [[x ^ y ^ c for x, y, c in zip(zero, column(pair[1]), choices)] for zero, pair in zip(zeros, pairs)]
        check("columns", b"".join(map(from_bits, u)).hex() == piece["columns"])
        q = [[x ^ bit & y for x, y in zip(column(secret), column_u)] for secret, bit, column_u in zip(keys, chosen, u)]
        strings = []
        for j in range(n):
            t_j, q_j = from_bits([zero[j] for zero in zeros]), from_bits([each[j] for each in q])
            p, other = hashed(at + j, q_j), hashed(at + j, xor(q_j, from_bits(chosen)))
            d = [1 - 2 * code[64 * first + j] for code in others]
            y = [(x + z - w) % 2**16 for x, z, w in zip(p, d, other)]
            strings.append(y)
            got = [(x + choices[j] * z) % 2**16 for x, z in zip(hashed(at + j, t_j), y)]
            check("a transfer", got == [(x + choices[j] * z) % 2**16 for x, z in zip(p, d)])
            one[row] = [(x + z) % 2**16 for x, z in zip(one[row], got)]
            two[row] = [(x - z) % 2**16 for x, z in zip(two[row], p)]
        check("strings", hex16(strings) == piece["strings"])
    check("shares of distances", [hex16(one), hex16(zip(*two))] == [file["receiver_share"], file["sender_share"]])
    plain = [[sum(x != y for x, y in zip(p, q)) for q in others] for p in codes]
    check("shares by transfer add up to distances", [[(x + y) % 2**16 for x, y in zip(*both)] for both in zip(one, two)] == plain)


N, T = 4096, 2**15


PRIMES = (1125899906826241, 1125899906629633)


Q = PRIMES[0] * PRIMES[1]


def product(a, b, q):
    """Multiplies polynomials mod X^4096 + 1 and q, by one product of long integers (Kronecker)."""
    width = 16
    long = lambda p: int.from_bytes(b"".join(le(x % q, width) for x in p), "little")
    data = (long(a) * long(b)).to_bytes(2 * N * width, "little")
    parts = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    return [(x - y) % q for x, y in zip(parts[:N], parts[N:])]


def drawn(stream, size, count, keep, made):
    """Draws words of `size` bytes, skips words that `keep` rejects, and returns `count` numbers that
    `made` makes of the words."""
    out = []
    while len(out) < count:
        word = int.from_bytes(stream.take(size), "little")
        if keep(word):
            out.append(made(word))
    return out


def uniform_mod(stream, p):
    return drawn(stream, 8, N, lambda word: word % 2**50 < p, lambda word: word % 2**50)


def ternary(stream):
    return drawn(stream, 1, N, lambda byte: byte < 255, lambda byte: byte % 3 - 1)


def small_errors(stream, count=N):
    ones = lambda word: (word % 2**21).bit_count()
    return drawn(stream, 8, count, lambda word: True, lambda word: ones(word) - ones(word >> 21))


def packed50(coefficients):
    return le(sum(x << 50 * i for i, x in enumerate(coefficients)), -(-50 * len(coefficients) // 8))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check_phe():
    for file in vectors("phe"):
        bits = file["bits"]
        a, b = [[bits_of(bytes.fromhex(code)) for code in file[of]] for of in ("holder_codes", "evaluator_codes")]
        x, v = map(bytes.fromhex, file["secrets"])
        w = min(512, 1 << (len(a) - 1).bit_length())
        columns, z = N // w, -(-bits * w // N)
        s, y = ternary(Stream(x, "lattice secret", b"")), derive(x, "lattice public", b"")

        def encrypted(label, params, m):
            public, e = Stream(y, label, params), small_errors(Stream(x, label, params))
            a = [uniform_mod(public, p) for p in PRIMES]
            masks = [product(a_p, s, p) for a_p, p in zip(a, PRIMES)]
            return [[(Q // T * bit + err - mask) % p for bit, err, mask in zip(m, e, masks_p)] for masks_p, p in zip(masks, PRIMES)], a

        p0, p1 = encrypted("public key", b"", [0] * N)
        check("public key", sha256(y + b"".join(map(packed50, p0))) == file["key"])
        sent, answers, one, two = [], [], [[0] * len(b) for _ in a], [[0] * len(a) for _ in b]
        for g in range(-(-len(a) // 512)):
            rows = a[512 * g :][:512]
            made = []
            for i in range(z):
                m = [0] * N
                for r, row in enumerate(rows):
                    for k, bit in enumerate(row[columns * i :][:columns]):
                        m[k * w + r] = bit
                made.append(encrypted("ciphertext", le(g * z + i, 4), m))
                sent.append(sha256(b"".join(map(packed50, made[-1][0]))))
            for at, row in enumerate(b):
                stream = Stream(v, "answer", le(g * len(b) + at, 8))
                u, e0, e1 = ternary(stream), small_errors(stream, len(rows)), small_errors(stream)
                f = [int.from_bytes(stream.take(16), "little") % 2**83 for _ in rows]
                h = [int.from_bytes(stream.take(2), "little") % T for _ in rows]
                answer = []
                for limb, p in enumerate(PRIMES):
                    # X^(-k w) equals X^(2 N - k w).
                    sums = [[0] * N, [0] * N]
                    for i, ciphertext in enumerate(made):
                        chosen = [0] * N
                        for k, bit in enumerate(row[columns * i :][:columns]):
                            if bit:
                                chosen[-k * w % N] += -1 if k else 1
                        for total, part in zip(sums, ciphertext):
                            total[:] = [(x + y) % p for x, y in zip(total, product(part[limb], chosen, p))]
                    fresh = [product(key[limb], u, p) for key in (p0, p1)]
                    first = [(x + y + e + Q // T * mask + noise) % p for x, y, e, mask, noise in zip(sums[0], fresh[0], e0, h, f)]
                    answer.append(first + [(x + y + e) % p for x, y, e in zip(sums[1], fresh[1], e1)])
                least = [y - PRIMES[1] if y > PRIMES[1] // 2 else y for y in answer[1]]
                divided = [(x - y) * pow(PRIMES[1], -1, PRIMES[0]) % PRIMES[0] for x, y in zip(answer[0], least)]
                a0, a1 = divided[: len(rows)], divided[len(rows) :]
                answers.append(sha256(packed50(a0) + packed50(a1)))
                opened = [(x + y) % PRIMES[0] for x, y in zip(a0, product(a1, s, PRIMES[0]))]
                for r, (value, mask) in enumerate(zip(opened, h)):
                    o = (value * T + PRIMES[0] // 2) // PRIMES[0] % T
                    one[512 * g + r][at] = sum(rows[r]) - 2 * o
                    two[at][512 * g + r] = sum(row) + 2 * mask
        check("ciphertexts", sent == file["ciphertexts"])
        check("answers", answers == file["answers"])
        check("shares by encryption", [hex16(one), hex16(two)] == [file["holder_share"], file["evaluator_share"]])
        plain = [[sum(p != q for p, q in zip(row, other)) for other in b] for row in a]
        added = [[(one[i][j] + two[j][i]) % 2**16 for j in range(len(b))] for i in range(len(a))]
        check("shares by encryption add up to distances", added == plain)
