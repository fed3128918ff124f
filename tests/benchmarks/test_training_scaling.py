"""The training benchmark's laws: least squares by hand, and a machine that obeys one."""

import pytest

from benchmarks.speed import law, scaling
from benchmarks.speed.ours import Seconds
from benchmarks.speed.task import Shape


class TestLaw:
    ROWS = tuple(
        {"read": float(read), "decoded": float(decoded), "passes": float(passes)}
        for read, decoded, passes in ((100, 10, 1), (200, 10, 3), (100, 30, 5), (400, 50, 2))
    )

    def test_known_coefficients_come_back(self) -> None:
        seconds = [0.5 + 2e-3 * r["read"] + 4e-2 * r["decoded"] for r in self.ROWS]
        found = law.fit(self.ROWS, seconds, ("1", "read", "decoded"))
        assert found.coefficients == pytest.approx({"1": 0.5, "read": 2e-3, "decoded": 4e-2})
        assert found.r_squared == pytest.approx(1.0)
        assert str(found).startswith("seconds = 5e+05 us x 1 + 2e+03 us x read + 4e+04 us")
        other = ("passes", "read", "decoded")
        assert law.best(self.ROWS, seconds, (other, ("1", "read", "decoded"))) == found

    def test_what_is_left_over_lowers_r_squared(self) -> None:
        rows = [{"x": 0.0}, {"x": 1.0}, {"x": 2.0}]
        # Nearest is 1/2 + x. Squares of what is left: 1/4 + 1 + 1/4; around the mean 3/2: 7/2.
        found = law.fit(rows, [1.0, 0.5, 3.0], ("1", "x"))
        assert found.coefficients == pytest.approx({"1": 0.5, "x": 1.0})
        assert found.r_squared == pytest.approx(1 - 1.5 / 3.5)

    def test_nothing_takes_less_than_no_time(self) -> None:
        rows = [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 1.0}, {"x": 3.0, "y": 3.0}]
        seconds = [1.0, 3.0, 4.0]  # 5/3 x - 1/3 y
        assert law.fit(rows, seconds, ("x", "y")).coefficients["y"] == pytest.approx(-1 / 3)
        # x alone: (1 + 6 + 12) / (1 + 4 + 9); y alone explains less.
        found = law.best(rows, seconds, (("x", "y"),))
        assert found.coefficients == pytest.approx({"x": 19 / 14})

    def test_quantities_that_cannot_be_told_apart_are_refused(self) -> None:
        rows = [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 4.0}, {"x": 3.0, "y": 6.0}]
        with pytest.raises(ValueError, match="cannot tell x, y apart"):
            law.fit(rows, [1.0, 2.0, 3.0], ("x", "y"))


class TestScaling:
    def points(self) -> list[scaling.Point]:
        """What a machine that obeys a law would measure."""
        made = []
        for varied, shape, layers in scaling.plan(10, depth=30):
            read = 50 * shape.questions + shape.episodes * 40 * shape.top_k * (shape.turns - 1)
            decoded = shape.episodes * shape.turns * shape.tokens
            passed, adapted = read + decoded, layers / 30
            quantities = {
                "tokens read": read,
                "tokens decoded": decoded,
                "decoding passes": shape.turns * shape.tokens,
                "tokens of an observation": 40 * shape.top_k,
                "passed tokens": passed,
                "passed tokens x adapted share": passed * adapted,
            }
            seconds = Seconds(
                sampling=0.01 * quantities["decoding passes"] + 2e-3 * read + 5e-3 * decoded,
                update=0.5 + 8e-3 * passed * adapted + 3e-3 * decoded,
            )
            made.append(scaling.Point(varied, shape, layers, quantities, seconds))
        return made

    def test_the_laws_are_found_again(self) -> None:
        laws = scaling.laws_of(self.points())
        assert laws["sampling"].coefficients == pytest.approx(
            {"decoding passes": 0.01, "tokens read": 2e-3, "tokens decoded": 5e-3}
        )
        assert laws["update"].coefficients == pytest.approx(
            {"1": 0.5, "passed tokens x adapted share": 8e-3, "tokens decoded": 3e-3}
        )

    def test_one_thing_varies_at_a_time_and_is_in_the_table(self) -> None:
        points = self.points()
        names = [name for name in ("questions", "turns", "top_k", "layers") for _ in range(3)]
        assert [point.varied for point in points] == ["", *names]
        lines = scaling.table(points).splitlines()
        # 2 x 50 + 8 x 80 read, 8 x 2 x 16 decoded; 0.5 + 8e-3 x 996 / 3 + 3e-3 x 256 seconds.
        assert lines[2] == "| base | 8 | 2 | 80 | 10 | 740 | 256 | 996 | 3.08 | 3.92 |"
        assert len(lines) == 2 + len(points)

    def test_a_point_is_measured(self) -> None:
        measured = scaling.Measurer("tiny", repeats=1, microbatch_tokens=1024)
        point = measured.point("questions", Shape(questions=1, group_size=2, turns=2, tokens=6), 1)
        assert point.quantities["tokens decoded"] == 2 * 2 * 6
        adapted = point.quantities["passed tokens x adapted share"]
        assert adapted == point.quantities["passed tokens"] / 2  # 1 of 2 layers
        assert point.seconds.sampling > 0 and point.seconds.update > 0
