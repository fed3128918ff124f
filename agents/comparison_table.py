"""A comparison of two evaluations as text for a terminal."""

from typing import Any

from .predictions import OUTCOMES

_SHOWN = 10  # wins and losses


def table(comparison: dict[str, Any]) -> str:
    """The result of `comparison.compare` for a terminal; of wins and losses the first ten each."""
    lines = [
        *(f"{side.upper()}: {_named(comparison[side])}" for side in "ab"),
        f"questions: {comparison['n']}  only in A: {comparison['only_a']}  "
        f"only in B: {comparison['only_b']}  failed in A or B: {comparison['failed']}",
    ]
    for name, results in comparison["metrics"].items():
        lines += ["", f"{name:14} {'n':>5} {'A':>9} {'B':>9} {'B - A':>9}  95 % interval       p"]
        lines += [_row(metric, result) for metric, result in results.items()]
    outcomes = [comparison[side]["outcomes"] for side in "ab"]
    lines += ["", f"{'outcome':20} {'A':>9} {'B':>9}"]
    for name in OUTCOMES:
        if any(name in counts for counts in outcomes):
            lines.append(f"{name:20} {outcomes[0].get(name, 0):9} {outcomes[1].get(name, 0):9}")
    if ceiling := comparison["ceiling"]:
        lines += [
            "",
            f"{ceiling['of'].upper()}'s wrong answers: {ceiling['wrong']}; the reading ceiling "
            f"gets {ceiling['ceiling_right']} of them right and {ceiling['ceiling_wrong']} wrong",
        ]
    for kind, title in (("wins", "won by B"), ("losses", "lost by B")):
        lines += ["", f"{title}: {len(comparison[kind])}"]
        lines += [_question(row) for row in comparison[kind][:_SHOWN]]
    return "\n".join(lines)


def _named(side: dict[str, Any]) -> str:
    return side["path"] + (f" ({side['method']})" if side["method"] else "")


def _row(metric: str, result: dict[str, Any]) -> str:
    d = result["difference"]
    interval = f"[{d['low']:+.3f}, {d['high']:+.3f}]"
    return (
        f"{metric:14} {result['n']:5} {result['a']:9.3f} {result['b']:9.3f} {d['mean']:+9.3f}  "
        f"{interval:18} {result['p']:.4f}"
    )


def _question(row: dict[str, Any]) -> str:
    def short(text: str | None) -> str:
        # A terminal would obey an answer's control characters.
        printable = "".join(c if c.isprintable() else " " for c in text or "")
        line = "no answer" if text is None else " ".join(printable.split())
        return line if len(line) <= 40 else line[:39] + "…"

    accepted = short(" | ".join(row["answers"]))
    return f"  {row['dataset']}/{row['id']}: {short(row['a'])} -> {short(row['b'])} ({accepted})"
