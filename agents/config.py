"""The configuration of a run: one typed tree from a YAML file and dotted command-line overrides.

Sections are frozen dataclasses, the long ones in files of their own. Slots (dataset, retriever,
algorithm, engine) hold a plug-in: its `name`, and the fields of that plug-in's own `Config` beside
it.
"""

from dataclasses import dataclass, field

from envs.limits import MIN_OBSERVATION_TOKENS
from retrieval.errors import InputError

from . import bounds
from .command_line import Plugin, Slot
from .guard import GuardOptions
from .model_options import ModelOptions


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where and how a run goes.

    Attributes:
        dir: Folder of everything the run writes.
        seed: Of all draws: adapters, question order, sampling, minibatches.
        steps: Reinforcement-learning steps; each plays and trains on one rollout batch.
        save_every: Steps between checkpoints; the last step always has one.
        keep_checkpoints: The newest so many stay, with those that the guard needs; 0 for all.
        token_transcripts: Episodes of each step whose tokens are kept with their log-probabilities
            and advantages, for report.html; 0 for none.
        wandb: A project of Weights & Biases that gets the metrics too; null for none.
    """

    dir: str = "runs/default"
    seed: int = 0
    steps: int = 100
    save_every: int = 10
    keep_checkpoints: int = 0
    token_transcripts: int = 4
    wandb: str | None = None

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "steps", "keep_checkpoints", "token_transcripts")
        bounds.at_least(self, 1, "save_every")


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """What the retriever indexes.

    Attributes:
        corpus: A corpus file (.jsonl, .jsonl.gz or .parquet); null for the dataset's own passages.
        isolate: Run the engine in a process of its own, for libraries that quarrel with torch.
    """

    corpus: str | None = None
    isolate: bool = False


@dataclass(frozen=True, slots=True)
class EnvOptions:
    """The environment.

    Attributes:
        top_k: Passages per search.
        max_turns: Turns per episode, the last one for the answer.
        max_observation_tokens: Tokens of one <information> block, in the model's tokens, at least
            32.
        max_context_tokens: Tokens of a whole episode, prompt included, in the model's tokens; null
            for no limit. When it runs out, the next turn is made the last.
        reward: Weights of reward terms (envs/rewards), summed.
    """

    top_k: int = 3
    max_turns: int = 5
    max_observation_tokens: int = 500
    max_context_tokens: int | None = None
    reward: dict[str, float] = field(default_factory=lambda: {"exact_match": 1.0})

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "top_k", "max_turns", "max_context_tokens")
        bounds.at_least(self, MIN_OBSERVATION_TOKENS, "max_observation_tokens")


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What the agent reads.

    Attributes:
        template: "short", "minimal" or "search_r1", or the instruction itself.
        framing: "inline" (Search-R1: one assistant message) or "chat" (observations are user
            messages).
        role: "user" puts the instruction before the question, "system" into a system message.
    """

    template: str = "short"
    framing: str = "inline"
    role: str = "user"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What every generation engine keeps to.

    Attributes:
        max_tokens: The most tokens of one turn.
        max_episodes: Episodes played at the same time; bounds the key-value cache.
    """

    max_tokens: int = 128
    max_episodes: int = 128

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "max_tokens", "max_episodes")


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """What one training step plays.

    Attributes:
        questions_per_step: Questions per step (P).
        group_size: Episodes per question (G).
        temperature: Of sampling while training; evaluation is greedy.
    """

    questions_per_step: int = 16
    group_size: int = 8
    temperature: float = 1.0

    def __post_init__(self) -> None:
        bounds.at_least(self, 1, "questions_per_step", "group_size")
        bounds.positive(self, "temperature")


OPTIMIZERS = ("adamw", "sgd")


@dataclass(frozen=True, slots=True)
class OptimizerOptions:
    """The optimiser and the shape of an update.

    Attributes:
        name: "adamw", or "sgd" without momentum. Adam divides by the gradient's own size, and so
            undoes most of a scale put on it.
        lr: Learning rate.
        weight_decay: Decoupled weight decay.
        max_grad_norm: Global-norm clip; 0 for none.
        epochs: Passes over each rollout batch.
        minibatches: Optimiser steps per pass.
        microbatch_tokens: Tokens in one forward pass, padding included: bounds memory only.
    """

    name: str = "adamw"
    lr: float = 1e-5
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    epochs: int = 1
    minibatches: int = 2
    microbatch_tokens: int = 2048

    def __post_init__(self) -> None:
        bounds.one_of(self, "name", OPTIMIZERS)
        bounds.positive(self, "lr")
        bounds.at_least(self, 0, "weight_decay", "max_grad_norm")
        bounds.at_least(self, 1, "epochs", "minibatches", "microbatch_tokens")


@dataclass(frozen=True, slots=True)
class WarmStartOptions:
    """Behaviour cloning before reinforcement learning, on a dataset that has an expert.

    Attributes:
        steps: Optimiser steps; 0 for no warm start.
        episodes_per_step: Demonstrations in each.
        lr: Learning rate, decaying linearly to a tenth.
        stop_early_share: Share of demonstrations that leave out the last hop, so that there is
            something left for reinforcement learning to find.
    """

    steps: int = 0
    episodes_per_step: int = 16
    lr: float = 1e-3
    stop_early_share: float = 0.5

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "steps")
        bounds.at_least(self, 1, "episodes_per_step")
        bounds.positive(self, "lr")
        bounds.share(self, "stop_early_share")


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Greedy evaluation of a training run, before and after reinforcement learning.

    Attributes:
        questions: The most questions; 0 for no evaluation.
        split: The split of the run's dataset they come from.
    """

    questions: int = 200
    split: str = "test"

    def __post_init__(self) -> None:
        bounds.at_least(self, 0, "questions")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything `train.py` reads."""

    run: RunOptions
    model: ModelOptions
    dataset: Plugin
    retriever: Plugin
    env: EnvOptions
    prompt: PromptOptions
    engine: Plugin
    rollout: RolloutOptions
    sampling: Plugin
    algorithm: Plugin
    penalty: Plugin
    optimizer: OptimizerOptions
    guard: GuardOptions
    warm_start: WarmStartOptions
    evaluation: EvaluationOptions

    def __post_init__(self) -> None:
        most, size = self.engine.options.max_episodes, self.rollout.group_size
        if most < size:
            raise InputError(
                f"engine.max_episodes is {most}; give at least rollout.group_size, {size}: a group "
                "is played together"
            )


DATASET = Slot("envs.datasets", "atlas")
RETRIEVER = Slot("retrieval.retrievers", "bm25s", CorpusOptions)
ENGINE = Slot("agents.generation", "hf", EngineOptions)
SAMPLING = Slot("agents.sampling", "uniform")
ALGORITHM = Slot("agents.algorithms", "grpo")
PENALTY = Slot("agents.penalties", "none")

TRAIN_LAYOUT: dict[str, type | Slot] = {
    "run": RunOptions,
    "model": ModelOptions,
    "dataset": DATASET,
    "retriever": RETRIEVER,
    "env": EnvOptions,
    "prompt": PromptOptions,
    "engine": ENGINE,
    "rollout": RolloutOptions,
    "sampling": SAMPLING,
    "algorithm": ALGORITHM,
    "penalty": PENALTY,
    "optimizer": OptimizerOptions,
    "guard": GuardOptions,
    "warm_start": WarmStartOptions,
    "evaluation": EvaluationOptions,
}

# What `eval.py` reads: no training, and the agent's own run supplies the defaults.
EVAL_LAYOUT: dict[str, type | Slot] = {
    **{
        name: TRAIN_LAYOUT[name]
        for name in ("model", "dataset", "retriever", "env", "prompt", "engine")
    },
    "method": Slot("agents.baselines", "search_r1"),
}
