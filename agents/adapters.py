"""What LoRA adapts, as peft takes it."""

from dataclasses import dataclass

from peft import LoraConfig
from transformers import PreTrainedModel

from .compatibility import check_adapters
from .model_options import ModelOptions


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """Which weights are adapted (LoRA, arXiv:2106.09685).

    Attributes:
        rank: Rank of each adapter.
        alpha: Adapters are scaled by alpha / rank.
        target_modules: Names of the linear layers adapted in each block.
        last_layers: Only the last so many blocks are adapted; 0 means all.
    """

    rank: int
    alpha: int
    target_modules: tuple[str, ...]
    last_layers: int


def lora_options(model: ModelOptions) -> LoraOptions:
    """Those of the policy's adapters."""
    return LoraOptions(
        rank=model.lora_rank,
        alpha=model.lora_alpha,
        target_modules=model.lora_target_modules,
        last_layers=model.lora_last_layers,
    )


def lora_config(base: PreTrainedModel, options: LoraOptions) -> LoraConfig:
    """The options in peft's words.

    Raises:
        InputError: Options that do not fit the model.
    """
    depth = base.config.get_text_config().num_hidden_layers
    check_adapters(base, options.rank, options.target_modules, options.last_layers)
    chosen = range(depth - options.last_layers, depth) if options.last_layers else None
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=options.rank,
        lora_alpha=options.alpha,
        target_modules=list(options.target_modules),
        layers_to_transform=None if chosen is None else list(chosen),
        lora_dropout=0.0,  # with dropout, another policy would be trained than sampled
    )
