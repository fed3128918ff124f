"""TRL's side of a step: its GRPOTrainer, with its own generation and its own tool loop.

The model is not asked for a tool call, which it never learnt to write: by its `response_template`
the tokenizer reads a call of `search` into every turn, and `max_tool_calling_iterations` ends the
loop after the script's last observation. The chat template frames a tool's answer as our framing
does: both sides read the same tokens. Nothing of TRL is replaced.
"""

import copy
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import PreTrainedModel, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from agents.adapters import lora_config, lora_options
from agents.model_options import ModelOptions
from benchmarks import resident

from .ours import LEARNING_RATE, MAX_GRAD_NORM
from .sides import Measured
from .task import Task, reward

# Of a conversation that ends with a tool, TRL keeps what stands after the last end-of-text token.
TOOL_TEMPLATE = (
    "{%% if messages[-1]['role'] == 'tool' or messages[-1].get('tool_calls') %%}"
    "{%% for message in messages %%}"
    "{%% if message['role'] == 'tool' %%}{{ '\\n' + message['content'] + '\\n' }}"
    "{%% elif message.get('tool_calls') %%}{{ message['tool_calls'] | tojson + eos_token }}"
    "{%% else %%}{{ message['content'] }}{%% endif %%}"
    "{%% endfor %%}{%% else %%}%s{%% endif %%}"
)
RESPONSE_TEMPLATE = {
    "defaults": {
        "role": "assistant",
        "tool_calls": [{"type": "function", "function": {"name": "search", "arguments": {}}}],
    },
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {"content": {"content": "text"}},
}


class ScriptedSearch:
    """The environment of TRL's tool loop: its one tool gives the script's next observation."""

    def reset(self, observations: Sequence[str], **row: Any) -> None:
        """Begin the episode of a row of the data set."""
        self._left: Iterator[str] = iter(observations)

    def search(self) -> str:
        """Look something up.

        Returns:
            What was found.
        """
        return next(self._left)


class Clock(TrainerCallback):
    """When optimiser steps ended, and when their samples were there."""

    def __init__(self) -> None:
        self.ended: list[float] = []
        self.sampled: list[float] = []
        self.loaded_bytes = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """What is resident now was loaded, and what comes is a step's."""
        self.loaded_bytes = resident.read("VmRSS")
        resident.forget_peak()
        self.ended.append(time.perf_counter())

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """An optimiser step has been taken."""
        self.ended.append(time.perf_counter())


def measure(
    task: Task,
    base: PreTrainedModel,
    options: ModelOptions,
    steps: int,
    optimizer_steps: int,
    rows: int,
) -> Measured:
    """Train on a rollout batch that warms memory up, and then on `steps` more.

    Args:
        task: What is played.
        base: What the adapters are added to.
        options: Of the adapters, and whether activations are computed again.
        steps: Rollout batches that count.
        optimizer_steps: Of each.
        rows: Episodes of a micro-batch; divides those of an optimiser step.

    Raises:
        RuntimeError: TRL did other work than was agreed on.
    """
    clock = Clock()

    def score(completion_ids: Sequence[Sequence[int]], index: Sequence[int], **row: Any) -> Any:
        clock.sampled.append(time.perf_counter())
        for question, completion in zip(index, completion_ids, strict=True):
            task.check(question, completion)
        return [reward(completion) for completion in completion_ids]

    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(task, steps, optimizer_steps, rows)
        settings |= {"gradient_checkpointing": options.gradient_checkpointing}
        config = GRPOConfig(output_dir=folder, **settings)
        trainer = _trainer(task, base, lora_config(base, lora_options(options)), config, score)
        trainer.add_callback(clock)
        trainer.train()
    peak = resident.read("VmHWM")
    if len(clock.sampled) != steps + 1 or len(clock.ended) != 1 + (steps + 1) * optimizer_steps:
        raise RuntimeError(f"{len(clock.sampled)} rollout batches, {len(clock.ended) - 1} steps")
    borders = clock.ended[::optimizer_steps]
    sampling = [done - began for done, began in zip(clock.sampled, borders, strict=False)]
    seconds = [end - began for began, end in itertools.pairwise(borders)]
    told = {"sampling_seconds": sampling[1:], "microbatch_rows": rows}
    return Measured(seconds[1:], peak, clock.loaded_bytes, told)


def _settings(task: Task, steps: int, optimizer_steps: int, rows: int) -> dict[str, Any]:
    """TRL's defaults but for what both sides have in common."""
    shape = task.shape
    batches = shape.episodes // rows
    return {
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": batches // optimizer_steps,
        "steps_per_generation": batches,
        "num_generations": shape.group_size,
        "max_steps": (steps + 1) * optimizer_steps,
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": MAX_GRAD_NORM,
        "loss_type": "grpo",
        "shuffle_dataset": False,
        # Of a whole episode; a turn has the tokens of the generation's own settings.
        "max_completion_length": max(_completion_lengths(task)),
        "max_tool_calling_iterations": shape.turns - 1,
        "generation_kwargs": {"min_new_tokens": shape.tokens, "max_new_tokens": shape.tokens},
        "report_to": "none",
        "logging_strategy": "no",
        "save_strategy": "no",
        "dataloader_pin_memory": False,
    }


def _trainer(
    task: Task, base: PreTrainedModel, lora: LoraConfig, config: GRPOConfig, score: Any
) -> GRPOTrainer:
    tokenizer = copy.deepcopy(task.framing.tokenizer)
    several = task.shape.turns > 1
    if several:
        tokenizer.chat_template = TOOL_TEMPLATE % tokenizer.chat_template
        tokenizer.response_template = RESPONSE_TEMPLATE
    rows = [
        {"prompt": task.messages(index), "index": index, "observations": list(observations)}
        for index, observations in enumerate(task.observations)
    ]
    for row, prompt in zip(rows, task.prompts, strict=True):
        ids = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_dict=False
        )
        if tuple(ids) != prompt:
            raise RuntimeError(f"question {row['index']}: the two sides read different prompts")
    return GRPOTrainer(
        model=base,
        reward_funcs=score,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora,
        environment_factory=ScriptedSearch if several else None,
    )


def _completion_lengths(task: Task) -> list[int]:
    return [whole - len(prompt) for whole, prompt in zip(task.lengths(), task.prompts, strict=True)]


def rows_of(task: Task, optimizer_steps: int, microbatch_tokens: int) -> int:
    """Episodes of TRL's micro-batch: as many as have room in ours.

    TRL pads all episodes to the longest, and takes as many each time.
    """
    episodes = task.shape.episodes // optimizer_steps
    fitting = microbatch_tokens // max(task.lengths())
    return max(rows for rows in range(1, max(fitting, 1) + 1) if episodes % rows == 0)
