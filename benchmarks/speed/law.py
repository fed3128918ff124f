"""Laws of what seconds depend on: linear in known quantities, fitted by least squares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

Row = Mapping[str, float]  # quantity -> its value in one measurement


@dataclass(frozen=True, slots=True)
class Law:
    """seconds = sum of coefficients times quantities.

    Attributes:
        coefficients: Quantity -> seconds for one of it.
        r_squared: Share of the variance of the seconds that it explains.
    """

    coefficients: Mapping[str, float]
    r_squared: float

    def __str__(self) -> str:
        """The law with its coefficients in microseconds."""
        terms = [f"{1e6 * c:.3g} us x {name}" for name, c in self.coefficients.items()]
        return f"seconds = {' + '.join(terms)}   (R^2 = {self.r_squared:.4f})"


def fit(rows: Sequence[Row], seconds: Sequence[float], quantities: Sequence[str]) -> Law:
    """The law in these quantities that is nearest to the measurements.

    Args:
        rows: One for each measurement.
        seconds: What was measured.
        quantities: Keys of the rows; "1" for a constant.

    Raises:
        ValueError: Fewer measurements than quantities, or quantities that they cannot tell apart.
    """
    values = np.array([[1.0 if q == "1" else row[q] for q in quantities] for row in rows])
    measured = np.array(seconds)
    scale = np.abs(values).max(axis=0)
    solution, _, rank, _ = np.linalg.lstsq(values / scale, measured, rcond=None)
    if rank < len(quantities):
        raise ValueError(f"these measurements cannot tell {', '.join(quantities)} apart")
    left = measured - values / scale @ solution
    spread = ((measured - measured.mean()) ** 2).sum()
    r_squared = 1.0 - float((left**2).sum() / spread) if spread else 1.0
    return Law(dict(zip(quantities, (solution / scale).tolist(), strict=True)), r_squared)


def best(rows: Sequence[Row], seconds: Sequence[float], candidates: Sequence[Sequence[str]]) -> Law:
    """Of all laws in some of a candidate's quantities the one that explains most.

    No coefficient is negative: nothing takes less than no time (non-negative least squares, by
    trying every subset).
    """
    laws = [
        fit(rows, seconds, part)
        for candidate in candidates
        for count in range(1, len(candidate) + 1)
        for part in combinations(candidate, count)
    ]
    possible = [law for law in laws if min(law.coefficients.values()) >= 0]
    return max(possible, key=lambda law: law.r_squared)
