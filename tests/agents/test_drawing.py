"""Drawing by inverse CDF, against its definition."""

import pytest
import torch

from agents.drawing import inverse_cdf
from retrieval.errors import InputError


@pytest.mark.parametrize("vocabulary", [5, 256, 700])
def test_the_inverse_cdf_is_the_definition(vocabulary) -> None:
    """Against a plain loop over the cumulative sum, on distributions with many zeros."""
    random = torch.Generator().manual_seed(vocabulary)
    for _ in range(20):
        weights = torch.rand(8, vocabulary, generator=random)
        weights[torch.rand(8, vocabulary, generator=random) < 0.7] = 0
        weights[:, vocabulary // 2] += 0.01
        probabilities = weights / weights.sum(-1, keepdim=True)
        uniform = torch.rand(8, generator=random, dtype=torch.float64)
        for row, token in enumerate(inverse_cdf(probabilities, uniform).tolist()):
            exact = probabilities[row].double()
            total = float(exact.sum())
            below, through = float(exact[:token].sum()), float(exact[: token + 1].sum())
            assert exact[token] > 0
            # float32 block sums move a border by at most 1e-6.
            assert below - 1e-6 <= uniform[row] * total <= through + 1e-6


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
def test_the_inverse_cdf_at_its_ends(uniform) -> None:
    """Mass on tokens 300 and 301 alone; three blocks, the last one empty and padded."""
    probabilities = torch.zeros(1, 600)
    probabilities[0, 300], probabilities[0, 301] = 0.25, 0.7499999
    (token,) = inverse_cdf(probabilities, torch.tensor([uniform], dtype=torch.float64))
    assert token == (300 if uniform == 0.0 else 301)


def test_a_policy_that_has_diverged_is_named() -> None:
    probabilities = torch.full((2, 300), torch.nan)
    with pytest.raises(InputError, match="not numbers: training has diverged"):
        inverse_cdf(probabilities, torch.zeros(2, dtype=torch.float64))
