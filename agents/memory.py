"""How much memory a run needs, from its configuration alone.

Bytes are sums of named items, each with its derivation. What autograd keeps of a block is counted
operation by operation (`saved_per_token`; a test compares it with autograd's own count). The two
phases of a step, sampling and training, come one after the other: the peak is the larger one.

c: bytes of a number in the base model's precision. Adapters and their gradients are float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .adapters import lora_options
from .algorithm import Algorithm
from .architecture import Architecture, architecture
from .config import RunConfig
from .generation.hf import READ_TOKENS
from .kv_cache import GROWTH
from .penalty import Penalty
from .policy import LOGIT_CHUNK
from .quantization import BYTES_PER_WEIGHT

FLOAT32 = 4
PROMPT_TOKENS = 512  # allowed for prompt and question where no limit is set for the whole
# Of a token's logit, at the worst moment: scaled, log-softmax, probabilities and their product.
LOGIT_BYTES = 4 * FLOAT32
# In an update without an entropy term (agents/head.py): log-softmax and probabilities.
FROZEN_LOGIT_BYTES = 2 * FLOAT32
# Copies of the widest layer's output while a block is computed: the gate, and of the layer beside
# it what the base gives, what the adapter gives, that scaled, and their sum.
WORKING_COPIES = 5
# Not measured here: what the CUDA context takes, and the share lost between blocks of memory.
CUDA_CONTEXT = 0.6e9
CUDA_FRAGMENTS = 0.05


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that takes memory.

    Attributes:
        name: What.
        bytes: How much.
        derivation: Why so much.
    """

    name: str
    bytes: float
    derivation: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run needs.

    Attributes:
        always: Held from beginning to end.
        sampling: Beside that, while episodes are played.
        training: Beside that, while an optimiser step is computed.
        base_parameters: Of the base model.
        trainable_parameters: Of adapters, critic included.
        context_tokens: The longest episode.
        step_tokens: The most tokens of a step's episodes.
    """

    always: Sequence[Item]
    sampling: Sequence[Item]
    training: Sequence[Item]
    base_parameters: int
    trainable_parameters: int
    context_tokens: int
    step_tokens: int

    @property
    def least(self) -> float:
        """Bytes without which not even the first token can be trained on."""
        return _total(self.always)

    @property
    def peak(self) -> float:
        """Bytes at the worst moment, every episode as long as it may be."""
        return self.least + max(_total(self.sampling), _total(self.training))


def estimate(config: RunConfig, dtype: torch.dtype, on_gpu: bool) -> Estimate:
    """What a run needs on a device.

    Args:
        config: Of the run; nothing of it is built but the algorithm.
        dtype: Of the base weights.
        on_gpu: Whether the device is a GPU.

    Raises:
        InputError: A model or LoRA options that `train.py` would refuse too.
    """
    model = config.model
    sizes = architecture(model.name, lora_options(model))
    algorithm: Algorithm = config.algorithm.build()
    critic = 0
    if algorithm.value is not None:
        critic = algorithm.value.rank * sizes.adapted_sizes + sizes.hidden + 1
    policy = model.lora_rank * sizes.adapted_sizes
    context = context_tokens(config, sizes.positions)
    always = [
        _base(sizes, dtype, model.quantization),
        *_trained(policy, critic, config.optimizer.name, algorithm.normaliser is not None),
    ]
    cache = _cache(config, sizes, context, dtype.itemsize)
    states = _states(config, sizes, context, dtype.itemsize)
    training = [*states, *_training(config, sizes, context, dtype.itemsize)]
    sampling = [*cache, *states, *_sampling(config, sizes, context, dtype.itemsize)]
    if on_gpu:
        always.append(Item("CUDA context", CUDA_CONTEXT, "allowed for, not measured"))
        for items in (sampling, training):
            lost = CUDA_FRAGMENTS * _total(items)
            items.append(Item("fragments", lost, f"{CUDA_FRAGMENTS:.0%}, not measured"))
    episodes = config.rollout.questions_per_step * config.rollout.group_size
    return Estimate(
        always, sampling, training, sizes.parameters, policy + critic, context, episodes * context
    )


def context_tokens(config: RunConfig, positions: int) -> int:
    """The most tokens of an episode."""
    env = config.env
    if env.max_context_tokens is not None:
        return env.max_context_tokens
    turns = env.max_turns * config.engine.options.max_tokens
    observations = (env.max_turns - 1) * env.max_observation_tokens
    return min(positions, PROMPT_TOKENS + turns + observations)


def rows(config: RunConfig) -> int:
    """The most episodes that are played at the same time, in training and evaluation."""
    most, size = config.engine.options.max_episodes, config.rollout.group_size
    groups = min(most // size, config.rollout.questions_per_step)
    return max(groups * size, min(most, config.evaluation.questions))


def saved_per_token(sizes: Architecture, rank: int, c: int) -> int:
    """Bytes that autograd keeps of one token in one adapted block.

    Two RMS norms (input and scale, float32); what the adapted layers read, in float32, of which a
    lower precision makes a copy for each; what their A gives; queries, keys, values, attention's
    output and the normaliser of each head; gate, its activation and the other factor.
    """
    norms = 2 * (sizes.hidden + 1) * FLOAT32
    read = sizes.shared_inputs if c == FLOAT32 else sizes.adapted_inputs
    adapters = (sum(read) + rank * len(sizes.adapted_inputs)) * FLOAT32
    attention = 2 * (sizes.query_width + sizes.key_width) * c + sizes.heads * FLOAT32
    return norms + adapters + attention + 3 * sizes.intermediate * c


def _base(sizes: Architecture, dtype: torch.dtype, quantization: str) -> Item:
    c = dtype.itemsize
    if quantization == "none":
        return Item("base weights", sizes.parameters * c, f"{sizes.parameters:,} x {c} bytes")
    rest = sizes.parameters - sizes.block_weights
    total = sizes.block_weights * BYTES_PER_WEIGHT + rest * c
    words = f"{sizes.block_weights:,} x {BYTES_PER_WEIGHT} + {rest:,} x {c} bytes"
    return Item("base weights", total, words)


def _trained(policy: int, critic: int, optimizer: str, normaliser: bool) -> list[Item]:
    count = policy + critic
    words = f"{count:,} x 4 bytes"
    items = [
        Item("adapters" + (", critic" if critic else ""), count * FLOAT32, words),
        Item("gradients", count * FLOAT32, words),
    ]
    if optimizer == "adamw":
        items.append(Item("AdamW moments", 2 * count * FLOAT32, f"2 x {words}"))
    if normaliser:
        words = f"clipped part of the gradient: {policy:,} x 4 bytes"
        items.append(Item("normaliser", policy * FLOAT32, words))
    return items


def _cache(config: RunConfig, sizes: Architecture, context: int, c: int) -> list[Item]:
    if config.engine.name != "hf":
        return []
    slots = -(-context // GROWTH) * GROWTH
    layer = rows(config) * slots * sizes.key_width * c
    words = (
        f"{rows(config)} episodes x {slots:,} tokens x {sizes.layers} layers x 2 x "
        f"{sizes.key_width} x {c} bytes"
    )
    grown = Item("cache, growing", layer, "a copy of one layer's keys")
    return [Item("key-value cache", 2 * sizes.layers * layer, words), grown]


def keeps_states(config: RunConfig) -> bool:
    """Whether sampling keeps states of frozen blocks for training (agents/trunk.py)."""
    last, name = config.model.lora_last_layers, config.engine.name
    return bool(last) and name == "hf" and config.engine.config.keep_states


def _states(config: RunConfig, sizes: Architecture, context: int, c: int) -> list[Item]:
    if not keeps_states(config) or sizes.adapted_layers == sizes.layers:
        return []
    rounds = config.sampling.build(1, config.run.seed).rounds
    episodes = rounds * config.rollout.questions_per_step * config.rollout.group_size
    words = f"{episodes} episodes x {context:,} tokens x {sizes.hidden:,} x {c} bytes"
    return [Item("states of frozen blocks", episodes * context * sizes.hidden * c, words)]


def _sampling(config: RunConfig, sizes: Architecture, context: int, c: int) -> list[Item]:
    if config.engine.name != "hf":
        return [Item(f"engine {config.engine.name}", 0, "its own memory is not counted")]
    at_once = max(1, READ_TOKENS // config.env.max_observation_tokens)
    widest = WORKING_COPIES * sizes.intermediate * FLOAT32
    repeated = 2 * at_once * context * sizes.query_width * c
    reading = READ_TOKENS * widest + repeated
    drawing = rows(config) * sizes.vocabulary * (LOGIT_BYTES + c)
    if reading > drawing:
        words = f"{READ_TOKENS:,} tokens, and the keys of {at_once} rows for each query head"
        return [Item("reading", reading, words)]
    words = f"{rows(config)} rows x {sizes.vocabulary:,} tokens x {LOGIT_BYTES + c} bytes"
    return [Item("drawing tokens", drawing, words)]


def _training(config: RunConfig, sizes: Architecture, context: int, c: int) -> list[Item]:
    tokens = max(config.optimizer.microbatch_tokens, context)
    block = saved_per_token(sizes, config.model.lora_rank, c)
    depth = sizes.adapted_layers
    per_token, words = depth * block, f"{tokens:,} tokens x {depth} layers x {block:,} bytes"
    if config.model.gradient_checkpointing:
        kept = sizes.hidden * c
        per_token = depth * kept + block
        words = f"{tokens:,} tokens x ({depth} layers x {kept:,} + one of {block:,} bytes)"
    working = tokens * (WORKING_COPIES * sizes.intermediate + 2 * sizes.hidden) * FLOAT32
    penalty: Penalty = config.penalty.build()
    logit = LOGIT_BYTES if penalty.entropy else FROZEN_LOGIT_BYTES
    chunk = LOGIT_CHUNK * sizes.vocabulary * logit
    head = f"{LOGIT_CHUNK} tokens x {sizes.vocabulary:,} x {logit} bytes"
    return [
        Item("activations", tokens * per_token, words),
        Item("one block's work", working, f"{tokens:,} tokens, widest layer and states"),
        Item("logits of a chunk", chunk, head),
    ]


def _total(items: Sequence[Item]) -> float:
    return sum(item.bytes for item in items)
