"""The processes of a run: one, or those that `accelerate launch` or `torchrun` has started.

Every process holds the whole model, the whole rollout batch and every decision made from it; what
is shared out is the work: groups to play, rows to pass forward and backward, questions to evaluate.
Sums and gathers make the results whole again, so nothing above the trainer's sums knows of
processes. Alone, every function here is trivial.

Only tensors and bytes travel, never pickles: what arrives from a socket is data.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor

from retrieval.errors import InputError

# One process may play or load for much longer than another. A process that dies is noticed by its
# launcher and by its closed connections, not by this clock.
TIMEOUT = timedelta(hours=1)
_SHARDING = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism config",
}


class FailedElsewhere(Exception):
    """Another process has failed, and says why itself."""


def join() -> None:
    """Join the launcher's other processes; once, before anything else here is called.

    Raises:
        InputError: The launcher asks for a model in shards, or its variables are incomplete.
    """
    for variable, name in _SHARDING.items():
        if os.environ.get(variable, "").lower() in ("1", "true"):
            raise InputError(
                f"accelerate: its config asks for {name}, which is not supported: every process "
                "holds the whole base model and only adapters are trained; set distributed_type "
                "to MULTI_GPU (docs/training.md)"
            )
    if not launched():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend, timeout=TIMEOUT)
    except (ValueError, dist.DistError) as error:
        raise InputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the processes cannot meet ({error}); "
            "start them with `accelerate launch` or `torchrun`, or unset WORLD_SIZE"
        ) from error


def launched() -> bool:
    """Whether a launcher has started more than one process."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def leave() -> None:
    """Part from the other processes, at the end of the work."""
    if dist.is_initialized():
        dist.destroy_process_group()


def size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is, from 0; process 0 writes the files and talks to the terminal."""
    return dist.get_rank() if dist.is_initialized() else 0


def own_gpu() -> torch.device:
    """This process's GPU, now the current one.

    Raises:
        InputError: More processes on this machine than GPUs.
    """
    number, found = int(os.environ.get("LOCAL_RANK", rank())), torch.cuda.device_count()
    if number >= found:
        raise InputError(
            f"model.device: process {number} of this machine has no GPU of its own (it has "
            f"{found}); start one process per GPU, or give --model.device cpu"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def share(total: int) -> slice:
    """This process's part of 0 .. total-1; the parts of all differ by one at most."""
    whole, extra = divmod(total, size())
    start = rank() * whole + min(rank(), extra)
    return slice(start, start + whole + (rank() < extra))


def stretch(weights: Sequence[int]) -> slice:
    """This process's part of a sequence: neighbours, in all parts about the same weight.

    Args:
        weights: Of the elements; positive.
    """
    ends, total = list(accumulate(weights)), sum(weights)
    # An element goes where its middle lies: twice its height in half weights.
    owners = [
        (2 * end - weight) * size() // (2 * total)
        for end, weight in zip(ends, weights, strict=True)
    ]
    return slice(bisect_left(owners, rank()), bisect_right(owners, rank()))


@contextmanager
def together() -> Iterator[None]:
    """Work that each process does by itself: fails in all of them or in none.

    The first process that failed raises its own error, the others `FailedElsewhere`: nobody waits
    for one that is gone, and the reason is said once. Nothing inside may wait for other processes.
    """
    try:
        yield
    except BaseException:
        if _first_failed(True) < rank():
            raise FailedElsewhere from None
        raise
    if _first_failed(False) < size():
        raise FailedElsewhere


def _first_failed(here: bool) -> int:
    """The lowest process that has failed; `size()` if none has."""
    if size() == 1:
        return 0 if here else 1
    first = torch.tensor(rank() if here else size())
    dist.all_reduce(first, dist.ReduceOp.MIN)
    return int(first)


def gather(mine: bytes) -> list[bytes]:
    """What every process gives, at least one byte each, in the order of processes."""
    if size() == 1:
        return [mine]
    lengths = torch.zeros(size(), dtype=torch.int64)
    lengths[rank()] = len(mine)
    dist.all_reduce(lengths)
    padded = torch.zeros(int(lengths.max()), dtype=torch.uint8)
    padded[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    parts = [torch.empty_like(padded) for _ in range(size())]
    dist.all_gather(parts, padded)
    return [
        part[:length].numpy().tobytes()
        for part, length in zip(parts, lengths.tolist(), strict=True)
    ]


def add_up(values: Tensor) -> None:
    """Put the sum over processes in place of a tensor."""
    if size() > 1:
        dist.all_reduce(values)


def sums(values: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor | None]:
    """The sum over processes of each of several tensors, in one exchange.

    Args:
        values: None where this process has nothing to add.
        like: Tensors of the same shapes, dtypes and device.

    Returns:
        As many; None where no process had anything.
    """
    if size() == 1 or not like:
        return list(values)
    flags = like[0].new_tensor([value is not None for value in values])
    known = [t.new_zeros(t.shape) if v is None else v for v, t in zip(values, like, strict=True)]
    flat = torch.cat([tensor.flatten() for tensor in (*known, flags)])
    dist.all_reduce(flat)
    *totals, flags = flat.split([t.numel() for t in (*like, flags)])
    return [
        total.view(tensor.shape) if flag else None
        for total, tensor, flag in zip(totals, like, flags.tolist(), strict=True)
    ]


def sum_gradients(parameters: Sequence[torch.nn.Parameter]) -> list[Tensor]:
    """Give the parameters the gradients of all processes' micro-batches; those there are."""
    gradients = sums([p.grad for p in parameters], parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return [gradient for gradient in gradients if gradient is not None]


@torch.no_grad()
def copy_from_first(tensors: Sequence[Tensor]) -> None:
    """Give every process the numbers of process 0: unlike machines may round differently."""
    if size() == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.broadcast(flat, 0)
    for tensor, values in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(values.view(tensor.shape))
