"""The objectives again, as plain loops over rows and tokens in float64.

An independent reading of the formula page. Advantages are Python floats; torch scalars stand only
where the gradient needs them. Of tokens that are not actions, only GiGPO's anchors are read.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agents.types import Batch

Config = Mapping[str, Any]
Table = list[dict[int, float]]  # for each row: column -> advantage


@dataclass(frozen=True)
class Outcome:
    loss: Tensor
    advantages: list[list[float]]
    clipped: set[tuple[int, int]]
    unclipped: Tensor
    removed: Tensor


class Row:
    """One trajectory in plain numbers; `turns` holds the columns of each turn's action tokens."""

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch, self.index = batch, index
        self.columns = [c for c, acts in enumerate(batch.action_mask[index].tolist()) if acts]
        self.group = int(batch.group_ids[index])
        self.turns: dict[int, list[int]] = {}
        for column in self.columns:
            self.turns.setdefault(int(batch.turn_ids[index, column]), []).append(column)
        self.turn_rewards = [float(batch.rewards[index, k]) for k in range(batch.rewards.shape[1])]
        penalties = getattr(batch, "penalties", None)
        lost = {c: float(penalties[index, c]) for c in self.columns if penalties is not None}
        self.total = sum(self.turn_rewards) - sum(lost.values())
        self.token_rewards = {column: -lost.get(column, 0.0) for column in self.columns}
        for turn, columns in self.turns.items():
            self.token_rewards[columns[-1]] += self.turn_rewards[turn]


@dataclass(frozen=True)
class Token:
    place: tuple[int, int]
    advantage: float
    weight: float
    ratio: Tensor
    logprob: Tensor


def strata_labels(batch: Batch, key: str) -> list[int]:
    """The stratum of each row, for the keys that are formulas ("random" is not)."""
    if key == "turns":
        return [1 + max(Row(batch, index).turns, default=-1) for index in range(len(batch))]
    assert key == "searches", key
    return [int(stratum) for stratum in batch.strata]


def standardised(values: Sequence[float], eps: float | None) -> list[float]:
    """(value - mean) / (population std + eps); only centred where eps is None."""
    if max(values) == min(values):
        return [0.0 for _ in values]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    scale = 1.0 if eps is None else variance**0.5 + eps
    return [(value - mean) / scale for value in values]


def within(keys: Sequence[Hashable], values: Sequence[float], eps: float | None) -> list[float]:
    """Standardise the values of each key on their own; keep their places."""
    result = [0.0 for _ in values]
    for key in set(keys):
        places = [place for place, other in enumerate(keys) if other == key]
        changed = standardised([values[place] for place in places], eps)
        for place, value in zip(places, changed, strict=True):
            result[place] = value
    return result


def broadcast(rows: list[Row], values: Sequence[float]) -> Table:
    return [dict.fromkeys(row.columns, value) for row, value in zip(rows, values, strict=True)]


def by_group(rows: list[Row], eps: float | None) -> list[float]:
    return within([row.group for row in rows], [row.total for row in rows], eps)


def whitened(table: Table, eps: float) -> Table:
    flat = [value for cells in table for value in cells.values()]
    values = iter(within([0] * len(flat), flat, eps))
    return [{column: next(values) for column in cells} for cells in table]


def ppo(config: Config, rows: list[Row]) -> Table:
    table: Table = [{} for _ in rows]
    for row, cells in zip(rows, table, strict=True):
        next_value = next_advantage = 0.0
        for column in reversed(row.columns):
            value = float(row.batch.values[row.index, column])
            delta = row.token_rewards[column] + config["gamma"] * next_value - value
            next_advantage = delta + config["gamma"] * config["lam"] * next_advantage
            next_value, cells[column] = value, next_advantage
    return whitened(table, config["whiten_eps"]) if config["whiten"] else table


def turn_ppo(config: Config, rows: list[Row]) -> Table:
    table = ppo(config, rows)
    if config["advantage_pooling"] == "turn_mean":
        for row, cells in zip(rows, table, strict=True):
            for columns in row.turns.values():
                mean = sum(cells[column] for column in columns) / len(columns)
                cells.update(dict.fromkeys(columns, mean))
    return table


def grpo(config: Config, rows: list[Row]) -> Table:
    return broadcast(rows, by_group(rows, config["std_eps"]))


def dr_grpo(config: Config, rows: list[Row]) -> Table:
    return broadcast(rows, by_group(rows, None))


def rloo(config: Config, rows: list[Row]) -> Table:
    values = []
    for row in rows:
        others = [o.total for o in rows if o.group == row.group and o is not row]
        equal = all(other == row.total for other in others)
        values.append(0.0 if equal else row.total - sum(others) / len(others))
    return broadcast(rows, values)


def stratified_grpo(config: Config, rows: list[Row]) -> Table:
    batch, alpha, eps = rows[0].batch, config["alpha"], config["std_eps"]
    if config["strata"] == "random":
        labels = config["labels"](batch) if callable(config["labels"]) else config["labels"]
    else:
        labels = strata_labels(batch, config["strata"])
    keys = [(row.group, int(label)) for row, label in zip(rows, labels, strict=True)]
    san, gn = within(keys, [row.total for row in rows], eps), by_group(rows, eps)
    return broadcast(rows, [alpha * s + (1 - alpha) * g for s, g in zip(san, gn, strict=True)])


def gigpo(config: Config, rows: list[Row]) -> Table:
    table, places, keys, returns = grpo(config, rows), [], [], []
    for row in rows:
        start = 0
        for turn, columns in row.turns.items():
            anchor = tuple(row.batch.input_ids[row.index, start : columns[0]].tolist())
            start = columns[-1] + 1
            places.append((row.index, columns))
            keys.append((row.group, anchor))
            later = enumerate(row.turn_rewards[turn:])
            returns.append(sum(config["gamma"] ** wait * reward for wait, reward in later))
    steps = within(keys, returns, config["std_eps"] if config["use_std"] else None)
    for (index, columns), step in zip(places, steps, strict=True):
        for column in columns:
            table[index][column] += config["omega"] * step
    return table


def reinforce_pp(config: Config, rows: list[Row]) -> Table:
    table = []
    for row in rows:
        gains = row.token_rewards
        table.append({c: sum(gains[later] for later in gains if later >= c) for c in gains})
    return whitened(table, config["whiten_eps"])


def sft(config: Config, rows: list[Row]) -> Table:
    return broadcast(rows, [1.0 for _ in rows])


def rejection_sampling(config: Config, rows: list[Row]) -> Table:
    return broadcast(rows, [float(row.total >= config["threshold"]) for row in rows])


def ratios(kind: str, row: Row, logprobs: Tensor) -> dict[int, Tensor]:
    shared = {"turn": list(row.turns.values()), "sequence": [row.columns]}
    result: dict[int, Tensor] = {}
    for columns in shared.get(kind, [[column] for column in row.columns]):
        total = torch.zeros((), dtype=torch.float64)
        for column in columns:
            old = float(row.batch.old_logprobs[row.index, column])
            change = logprobs[row.index, column].double() - old
            total = total + torch.clamp(change, -20.0, 20.0)
        result.update(dict.fromkeys(columns, torch.exp(total / max(1, len(columns)))))
    return result


def positive_share(tokens: Sequence[Token], low: float, high: float) -> float:
    gains = []
    for token in tokens:
        ratio = float(token.ratio.detach())
        held_ratio = min(ratio, high) if token.advantage >= 0 else max(ratio, low)
        gains.append(held_ratio * token.advantage)
    positive, negative = sum(g for g in gains if g > 0), -sum(g for g in gains if g < 0)
    return 1.0 if negative == 0 else positive / (positive + negative)


def find_band(kind: str, config: Config, tokens: Sequence[Token]) -> tuple[float, float]:
    if kind == "fixed band":
        return 1 - config["clip_low"], 1 + config["clip_high"]
    low, high, wanted = config["low_start"], config["high_start"], config["positive_share"]
    while positive_share(tokens, low, high) < wanted and low < config["low_max"]:
        low = min(low + config["low_step"], config["low_max"])
    while positive_share(tokens, low, high) < wanted and high < config["high_max"]:
        high = min(high + config["high_step"], config["high_max"])
    return low, high


def held(token: Token, low: float, high: float, dual: float | None) -> float | None:
    """The constant at which the clip holds the token's term; None if it is not clipped."""
    ratio, advantage = float(token.ratio.detach()), token.advantage
    beyond = (advantage > 0 and ratio > high) or (advantage < 0 and ratio < low)
    if not beyond and not (dual is not None and advantage < 0 and ratio > dual):
        return None
    value = -min(ratio * advantage, min(max(ratio, low), high) * advantage)
    return min(value, -dual * advantage) if dual is not None and advantage < 0 else value


def smooth_term(kind: str, config: Config, token: Token) -> Tensor:
    if kind == "soft gate":
        tau = config["tau_pos"] if token.advantage > 0 else config["tau_neg"]
        return -(4 / tau) * torch.sigmoid(tau * (token.ratio - 1)) * token.advantage
    factor = min(float(token.ratio.detach()), config["cap"]) if kind == "capped" else 1.0
    return -factor * token.advantage * token.logprob


RULES: dict[str, tuple[Callable[[Config, list[Row]], Table], str, str, str]] = {
    "ppo": (ppo, "token", "sequence", "fixed band"),
    "turn_ppo": (turn_ppo, "turn", "sequence", "fixed band"),
    "grpo": (grpo, "token", "sequence", "fixed band"),
    "gspo": (grpo, "sequence", "sequence", "fixed band"),
    "stratified_grpo": (stratified_grpo, "token", "sequence", "fixed band"),
    "dr_grpo": (dr_grpo, "token", "budget", "fixed band"),
    "dapo": (grpo, "token", "token", "fixed band"),
    "sapo": (grpo, "token", "sequence", "soft gate"),
    "bapo": (grpo, "token", "token", "moving band"),
    "cispo": (grpo, "token", "token", "capped"),
    "gigpo": (gigpo, "token", "sequence", "fixed band"),
    "rloo": (rloo, "token", "sequence", "fixed band"),
    "reinforce_pp": (reinforce_pp, "token", "token", "fixed band"),
    "sft": (sft, "token", "token", "likelihood"),
    "rejection_sampling": (rejection_sampling, "token", "token", "likelihood"),
}
SAME = {"s_ppo": "ppo", "so_ppo": "turn_ppo", "st_ppo": "turn_ppo", "so_grpo": "grpo"}


def outcome(name: str, config: Config, batch: Batch, logprobs: Tensor) -> Outcome:
    """The loss of a whole batch, and what its clip does."""
    advantages, ratio_kind, average, loss_kind = RULES[SAME.get(name, name)]
    rows, tokens = [Row(batch, index) for index in range(len(batch))], []
    table = advantages(config, rows)
    for row in rows:
        count = {
            "sequence": len(rows) * len(row.columns),
            "token": sum(len(other.columns) for other in rows),
            "budget": len(rows) * config.get("max_tokens", 0),
        }[average]
        for column, ratio in ratios(ratio_kind, row, logprobs).items():
            place, logprob = (row.index, column), logprobs[row.index, column].double()
            tokens.append(Token(place, table[row.index][column], 1.0 / count, ratio, logprob))
    loss = unclipped = removed = logprobs[:0].double().sum()  # 0, and part of the graph
    clipped = set()
    has_band = loss_kind in ("fixed band", "moving band")
    low, high = find_band(loss_kind, config, tokens) if has_band else (0.0, 0.0)
    for token in tokens:
        value = held(token, low, high, config["dual_clip"]) if has_band else None
        free = -token.ratio * token.advantage
        term = token.weight * (free if has_band else smooth_term(loss_kind, config, token))
        unclipped = unclipped + term
        loss = loss + (term if value is None else token.weight * value)
        if value is not None:
            removed = removed + term
            clipped.add(token.place)
    columns = range(batch.action_mask.shape[1])
    dense = [[cells.get(column, 0.0) for column in columns] for cells in table]
    return Outcome(loss, dense, clipped, unclipped, removed)


def normaliser_factor(
    rule: str, power: float, clip_norm: float, typical_norm: float, any_clipped: bool, delta: float
) -> float:
    """What the SORL family multiplies the policy gradient by."""
    if not any_clipped:
        return 1.0
    if rule == "literal":
        return 1.0 / (clip_norm**power + delta)
    if rule == "max1":
        return 1.0 / max(1.0, clip_norm) ** power
    assert rule == "smooth", rule
    total = typical_norm + clip_norm
    return 1.0 if total == 0 else (typical_norm / total) ** power
