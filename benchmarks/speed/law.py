"""Laws of what seconds depend on: linear in known quantities, fitted by least squares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """Of laws with equally many quantities the one that explains most."""
    return max((fit(rows, seconds, c) for c in candidates), key=lambda law: law.r_squared)
