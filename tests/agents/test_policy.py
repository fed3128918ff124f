"""SearchPolicy: log-probabilities and adapters; T7 and T16 of the lessons."""

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import agents.policy as module
from agents.batching import to_batch
from agents.models import load_base
from agents.policy import SearchPolicy
from tests.agents import builds

VOCABULARY = 1024


def ragged(policy: SearchPolicy, rows: int = 5, seed: int = 1):
    return to_batch(builds.random_trajectories(rows, seed=seed), policy.pad_id)


def naive(policy: SearchPolicy, ids: list[int], temperature: float) -> torch.Tensor:
    """One row alone through the whole model in float64 soft-max: (T, V) log-probabilities."""
    logits = policy.model(input_ids=torch.tensor([ids])).logits[0].double()
    return torch.log_softmax(logits / temperature, dim=-1)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOGIT_CHUNK", 7)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.3])
def test_t16_logprobs_and_entropies_are_those_of_the_full_softmax(
    policy, small_chunks, temperature
) -> None:
    """T16, rows alone and without padding; position t is predicted from t - 1."""
    batch = ragged(policy)
    logprobs, entropies = policy.logprobs(batch.input_ids, batch.action_mask, temperature)
    assert int(batch.action_mask.sum()) > 3 * module.LOGIT_CHUNK
    for row, length in enumerate(batch.lengths.tolist()):
        every = naive(policy, batch.input_ids[row, :length].tolist(), temperature)
        for t in range(length):
            expected, entropy = 0.0, 0.0
            if batch.action_mask[row, t]:
                expected = every[t - 1, batch.input_ids[row, t]].item()
                entropy = -(every[t - 1].exp() * every[t - 1]).sum().item()
            assert logprobs[row, t].item() == pytest.approx(expected, abs=1e-5)
            assert entropies[row, t].item() == pytest.approx(entropy, abs=1e-5)
    off = ~batch.action_mask
    assert not logprobs[off].any() and not entropies[off].any()
    assert not entropies.requires_grad


def test_t16_gradients_are_those_of_the_full_softmax(small_chunks) -> None:
    policy = builds.build_policy(b_std=0.1)
    batch = ragged(policy)
    weights = torch.randn(batch.input_ids.shape, generator=torch.Generator().manual_seed(0))
    logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 0.8)
    (logprobs * weights).sum().backward()
    got = [parameter.grad.clone() for parameter in policy.trainable_parameters()]
    policy.model.zero_grad()
    loss = torch.zeros(())
    for row, length in enumerate(batch.lengths.tolist()):
        every = naive(policy, batch.input_ids[row, :length].tolist(), 0.8)
        for t in batch.action_mask[row].nonzero()[:, 0].tolist():
            loss = loss + weights[row, t] * every[t - 1, batch.input_ids[row, t]]
    loss.backward()
    largest = max(parameter.grad.abs().max() for parameter in policy.trainable_parameters())
    assert largest > 1e-2
    for parameter, gradient in zip(policy.trainable_parameters(), got, strict=True):
        assert (parameter.grad - gradient).abs().max() < 1e-5 * largest


class Largest(TorchDispatchMode):
    """Remembers the largest tensor with a vocabulary axis that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and VOCABULARY in tensor.shape:
                self.elements = max(self.elements, tensor.numel())
        return result


def test_t16_the_logits_of_all_tokens_never_exist(small_chunks) -> None:
    policy = builds.build_policy(b_std=0.1)
    batch = ragged(policy, rows=8)
    with Largest() as seen:
        logprobs, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
        logprobs.sum().backward()
    # The embedding matrix (V, H) = 1024 x 64 is there anyway; logits are at most 7 x V.
    assert VOCABULARY * module.LOGIT_CHUNK <= seen.elements <= VOCABULARY * 64
    assert int(batch.action_mask.sum()) > 64


def test_t16_graph_keeps_no_logits_between_forward_and_backward(small_chunks) -> None:
    """Chunks are recomputed in the backward pass: what is saved has no vocabulary axis."""
    policy = builds.build_policy(b_std=0.1)
    batch = ragged(policy)
    saved: list[torch.Size] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    assert saved
    assert not [shape for shape in saved if VOCABULARY in shape and shape != (VOCABULARY, 64)]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), extra=st.integers(0, 5))
def test_t2_padding_and_its_ids_change_nothing(policy, seed, extra) -> None:
    batch = ragged(policy, rows=3, seed=seed)
    expected, _ = policy.logprobs(batch.input_ids, batch.action_mask, 1.0)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(VOCABULARY, batch.input_ids.shape, generator=generator)
    ids = torch.where(batch.attention_mask, batch.input_ids, noise)
    wider = torch.nn.functional.pad(ids, (0, extra), value=3)
    mask = torch.nn.functional.pad(batch.action_mask, (0, extra))
    got, _ = policy.logprobs(wider, mask, 1.0)
    width = batch.input_ids.shape[1]
    assert torch.allclose(got[:, :width], expected, atol=1e-5)
    assert not got[:, width:].any()


def test_t15_a_batch_without_action_tokens_has_no_logprobs(policy) -> None:
    ids = torch.tensor([[5, 6, 7]])
    logprobs, entropies = policy.logprobs(ids, torch.zeros_like(ids, dtype=torch.bool), 1.0)
    assert logprobs.tolist() == entropies.tolist() == [[0.0, 0.0, 0.0]]


def test_the_first_token_cannot_be_an_action(policy) -> None:
    with pytest.raises(ValueError, match="first token"):
        policy.logprobs(torch.tensor([[5, 6]]), torch.tensor([[True, False]]), 1.0)


def digest(policy: SearchPolicy) -> str:
    value = hashlib.sha256()
    for name, parameter in sorted(policy.base_state().items()):
        value.update(name.encode() + parameter.detach().numpy().tobytes())
    return value.hexdigest()


class TestAdapters:
    """T7."""

    def test_t7_fresh_adapters_change_nothing(self) -> None:
        base, _ = load_base("tiny", torch.float32, torch.device("cpu"))
        ids = torch.arange(2, 20)[None]
        with torch.no_grad():
            expected = base(input_ids=ids).logits
            assert torch.equal(builds.build_policy().model(input_ids=ids).logits, expected)

    def test_t7_random_b_changes_the_logits_and_the_reference_is_the_base(self) -> None:
        base, _ = load_base("tiny", torch.float32, torch.device("cpu"))
        policy = builds.build_policy(b_std=0.1)
        ids = torch.arange(2, 20)[None]
        with torch.no_grad():
            expected = base(input_ids=ids).logits
            adapted = policy.logits(policy.hidden(ids)[0])
            assert (adapted - expected).abs().max() > 0.01
            with policy.reference():
                assert torch.equal(policy.logits(policy.hidden(ids)[0]), expected[0])
            assert torch.equal(policy.logits(policy.hidden(ids)[0]), adapted)

    def test_the_reference_ends_with_an_error(self, policy) -> None:
        ids = torch.arange(2, 20)[None]
        with torch.no_grad():
            adapted = policy.hidden(ids)
            with pytest.raises(RuntimeError), policy.reference():
                raise RuntimeError
            assert torch.equal(policy.hidden(ids), adapted)

    def test_base_state_is_the_base_models_own(self) -> None:
        base, _ = load_base("tiny", torch.float32, torch.device("cpu"))
        state = builds.build_policy(b_std=0.1).base_state()
        expected = dict(base.named_parameters())
        assert set(state) == set(expected)
        assert all(torch.equal(state[name], expected[name]) for name in expected)
        assert not any(parameter.requires_grad for parameter in state.values())

    def test_only_adapters_are_trainable(self) -> None:
        # Rank 4 on q (64 -> 64), of 2 layers: 2 matrices of 4 x 64 each.
        trainable = builds.build_policy(modules=("q_proj",)).trainable_parameters()
        assert [tuple(parameter.shape) for parameter in trainable] == [(4, 64), (64, 4)] * 2

    @pytest.mark.parametrize(("last", "layers"), [(0, {0, 1}), (1, {1}), (2, {0, 1})])
    def test_the_last_layers_are_adapted(self, last, layers) -> None:
        policy = builds.build_policy(last_layers=last)
        names = [n for n, p in policy.model.named_parameters() if p.requires_grad]
        assert {int(name.split("layers.")[1].split(".")[0]) for name in names} == layers

    def test_dropout_is_off_while_training(self) -> None:
        policy = builds.build_policy(b_std=0.1)
        policy.model.train()
        ids = torch.arange(2, 20)[None]
        with torch.no_grad():
            assert torch.equal(policy.hidden(ids), policy.hidden(ids))

    def test_adapters_of_a_half_precision_model_are_float32(self) -> None:
        policy = builds.build_policy(dtype=torch.bfloat16)
        assert {p.dtype for p in policy.trainable_parameters()} == {torch.float32}


def test_ends_are_those_of_the_tokenizer_and_the_generation_config() -> None:
    base, tokenizer = load_base("tiny", torch.float32, torch.device("cpu"))
    base.generation_config.eos_token_id = [7, 9]
    assert SearchPolicy(base, tokenizer).end_ids == {7, 9, tokenizer.eos_token_id}
    base.generation_config = None
    assert SearchPolicy(base, tokenizer).end_ids == {tokenizer.eos_token_id}


@given(text=st.text(max_size=30))
@settings(deadline=None)
def test_plain_text_encodes_and_decodes_to_itself(policy, text) -> None:
    assert policy.decode(policy.encode(text)) == text


@given(text=st.text(alphabet="<>/serchanw é\n", max_size=30))
@settings(deadline=None)
def test_pieces_show_every_tag_that_the_text_holds(policy, text) -> None:
    pieces = "".join(map(policy.piece, policy.encode(f"é{text}</search>")))
    assert pieces.count("</search>") == f"{text}</search>".count("</search>")
