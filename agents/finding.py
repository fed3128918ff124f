"""What a check of the doctor found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result.

    Attributes:
        said: What was measured, or what is wrong.
        remedy: What to do about it; empty where all is well.
    """

    said: str
    remedy: str = ""

    @property
    def green(self) -> bool:
        """Whether all is well."""
        return not self.remedy
