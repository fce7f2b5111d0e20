"""Settings of a computation of `xclp`, and the numbers that follow from them (spec, section 15e)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass
class Plan:
    rows: int
    classes: int
    bits: int
    k: int
    alpha: float
    steps: int
    power: int
    balance: bool

    def __post_init__(self) -> None:
        self.k = min(self.k, self.rows - 1)

    @property
    def words(self) -> int:
        """Words of 64 lanes for all rows."""
        return -(-self.rows // 64)

    @property
    def key_bits(self) -> int:
        """l: a code has 2^l bits."""
        return self.bits.bit_length() - 1

    @cached_property
    def weights(self) -> list[int]:
        """weight(h) for h below L / 2."""
        exact = [math.cos(math.pi * h / self.bits) ** self.power * 2**12 for h in range(self.bits // 2)]
        nearest = [math.floor(weight + 0.5) for weight in exact]
        return [weight if weight >= 256 else 0 for weight in nearest]

    @cached_property
    def coefficients(self) -> list[int]:
        """c_0 to c_K."""
        w = math.sqrt(1 - self.alpha**2)
        q = (1 - w) / self.alpha
        return [math.floor((2**20 if j == 0 else 2**21 * q**j) / w + 0.5) for j in range(self.steps + 1)]

    @property
    def root_of_rows(self) -> int:
        """M."""
        return math.isqrt(self.rows)

    def balance_of(self, labels: int) -> int:
        """u of a class with this number of labels."""
        return (2**21 * self.root_of_rows + labels) // (2 * labels) if labels else 0

    @property
    def largest_degree(self) -> int:
        """D."""
        return (self.rows - 1 + self.k) * 2**12

    @property
    def values(self) -> tuple[float, float]:
        """V and R."""
        return 1.01 * 2**21 * 4 * math.sqrt(self.rows), self.steps**2 * math.sqrt(8 * self.rows * self.k)

    @property
    def largest_score(self) -> float:
        """T."""
        (value, roundings), most = self.values, self.root_of_rows
        if self.balance:
            return 1.002 * (value + most * roundings) / (1 - self.alpha) + most * self.steps + 1
        return 1.001 * (value + roundings) / (1 - self.alpha) + self.steps

    @property
    def fits(self) -> bool:
        """True if all values fit in 64 bits."""
        return sum(self.values) * 2**32 < 2**62 and 2**20 * self.largest_score < 2**62

    def tolerance(self, tail: float) -> float:
        """Returns the estimated error of scores, relative to the largest of them."""
        roundings = self.steps**2 / 2**25
        if self.balance:
            roundings = roundings * math.sqrt(self.rows - 1 + self.k) + self.rows / (2**20 * self.root_of_rows)
        return 2 * tail + 2 * self.largest_degree / 2**32 + roundings

    @property
    def score_bits(self) -> int:
        """B."""
        return math.ceil(math.log2(self.largest_score)) + 2

    @property
    def quotient_bits(self) -> int:
        """E."""
        return math.ceil(math.log2(128 * self.largest_score * (2 * self.classes + 2))) + 1
