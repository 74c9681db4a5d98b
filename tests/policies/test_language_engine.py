from typing import Any

import numpy as np
import pytest

from rmlab.errors import DataError, UsageError
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.generation import SlotDecoder
from rmlab.models.tokenizer import Tokenizer
from rmlab.policies.engine import EngineConfig, Rollout, Sampling
from rmlab.policies.rollout import plan

SAMPLED = Sampling(temperature=0.8, max_action_tokens=12)


@pytest.fixture(scope="module")
def play(sandbox: Sandbox, starter_tasks: LoadedTasks, tokenizer: Tokenizer) -> Any:
    from rmlab.policies.language_engine import LanguageEngine

    tasks = starter_tasks.part("validation")[:6]

    def rollouts(model: Any, sampling: Sampling = SAMPLED, seed: int = 0, **config: Any) -> list[Rollout]:
        engine = LanguageEngine(
            model, tokenizer, sandbox, EnvironmentConfig(), EngineConfig(**{"slots": 8, "capacity": 448, **config})
        )
        return engine.rollout(plan(tasks, ["tiny"], 3), sampling, seed).rollouts

    return rollouts


def plain_logprobs(model: Any, rollout: Rollout, temperature: float) -> np.ndarray:
    import torch

    ids = torch.from_numpy(rollout.ids_T.astype(np.int64))[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, :-1].float() / temperature
    return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].numpy()


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_logprobs_are_those_of_a_plain_forward_pass(family: str, play: Any, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(family)
    found = play(model)
    assert len(found) == 18
    for rollout in found:
        own = rollout.own_T[1:]
        assert own.sum() == rollout.own_tokens > 0
        np.testing.assert_allclose(rollout.logprob_T[1:][own], plain_logprobs(model, rollout, 0.8)[own], atol=1e-4)
        assert not rollout.logprob_T[~rollout.own_T].any()


def test_training_sees_the_same_probabilities(play: Any, qwen3: Any) -> None:
    import torch

    from rmlab.training.policy import token_logprobs

    one = max(play(qwen3), key=lambda rollout: rollout.own_tokens)
    ids_BT = torch.from_numpy(one.ids_T.astype(np.int64))[None]
    logprob_BT, entropy_BT = token_logprobs(qwen3, ids_BT, torch.from_numpy(one.own_T)[None], 0.8, entropy=True)
    np.testing.assert_allclose(logprob_BT[0].detach().numpy(), one.logprob_T, atol=1e-4)
    assert entropy_BT is not None
    assert 0 < float(entropy_BT[0, one.own_T].min()) <= float(entropy_BT.max()) <= np.log(512) + 1e-4


def test_rollouts_repeat_themselves_and_follow_the_seed_alone(play: Any, qwen3: Any) -> None:
    first, again = play(qwen3), play(qwen3)
    for a, b in zip(first, again, strict=True):
        assert a.trajectory == b.trajectory
        assert np.array_equal(a.ids_T, b.ids_T)
        assert np.array_equal(a.logprob_T, b.logprob_T)
    other_layout = play(qwen3, slots=5, prefill_rows=2, overlap=True)
    alike = [(a, b) for a, b in zip(first, other_layout, strict=True) if np.array_equal(a.ids_T, b.ids_T)]
    assert len(alike) >= len(first) - 1, (
        "another layout rounds otherwise, no more: a draw on a border may fall beside it"
    )
    for a, b in alike:
        np.testing.assert_allclose(a.logprob_T, b.logprob_T, atol=1e-4)
    assert [r.trajectory.attempt for r in first[:3]] == [0, 1, 2]
    assert len({tuple(r.ids_T) for r in first[:3]}) == 3
    assert any(not np.array_equal(a.ids_T, b.ids_T) for a, b in zip(first, play(qwen3, seed=1), strict=True))


def test_the_last_conversations_move_to_lower_slots_and_say_the_same(
    play: Any, qwen3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[tuple[list[int], list[int]]] = []
    widths: list[int] = []
    move, begin = SlotDecoder.move, SlotDecoder.begin

    def moved(self: SlotDecoder, from_N: list[int], to_N: list[int], tokens: int) -> None:
        moves.append((list(from_N), list(to_N)))
        move(self, from_N, to_N, tokens)

    def begun(self: SlotDecoder, steps: int, highest_slot: int, farthest: int) -> None:
        widths.append(self.width(highest_slot))
        begin(self, steps, highest_slot, farthest)

    monkeypatch.setattr(SlotDecoder, "move", moved)
    monkeypatch.setattr(SlotDecoder, "begin", begun)
    few = play(qwen3, slots=8)
    assert not moves, "8 slots are as few as are decoded at once"
    widths.clear()
    many = play(qwen3, slots=32)
    assert moves
    assert all(min(high) >= 8 and len(high) == len(low) for high, low in moves)
    assert widths[0] == 32 > widths[-1]
    alike = [(a, b) for a, b in zip(few, many, strict=True) if np.array_equal(a.ids_T, b.ids_T)]
    assert len(alike) >= len(few) - 1
    for a, b in alike:
        np.testing.assert_allclose(a.logprob_T, b.logprob_T, atol=1e-4)


def test_greedy_takes_the_likeliest_token_as_generate_does(play: Any, qwen3: Any, tokenizer: Tokenizer) -> None:
    import torch

    greedy = Sampling(temperature=0.0, max_action_tokens=12)
    found = play(qwen3, greedy)
    for rollout in found[::3]:
        begin = int(np.argmax(rollout.own_T))
        end = begin + int(np.argmin(np.append(rollout.own_T[begin:], False)))
        ids = torch.from_numpy(rollout.ids_T[:begin].astype(np.int64))[None]
        stop = tokenizer.hf.convert_tokens_to_ids("<|im_end|>")
        with torch.no_grad():
            made = qwen3.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=12,
                do_sample=False,
                eos_token_id=stop,
                pad_token_id=tokenizer.pad_id,
                use_cache=True,
            )
        assert made[0, begin:].tolist() == rollout.ids_T[begin:end].tolist()
    assert all(np.array_equal(a.ids_T, b.ids_T) for a, b in zip(found[0::3], found[1::3], strict=True))


def test_greedy_and_sampled_attempts_share_the_slots(play: Any, qwen3: Any) -> None:
    greedy = Sampling(temperature=0.0, max_action_tokens=12)
    apart = (play(qwen3), play(qwen3, greedy))
    mixed = play(qwen3, [greedy if number % 3 == 0 else SAMPLED for number in range(18)])
    for number, (sampled, likeliest, found) in enumerate(zip(*apart, mixed, strict=True)):
        wanted = likeliest if number % 3 == 0 else sampled
        assert np.array_equal(found.ids_T, wanted.ids_T)
        np.testing.assert_allclose(found.logprob_T, wanted.logprob_T, atol=1e-4)


def test_tokens_and_messages_are_one_conversation(play: Any, qwen3: Any, tokenizer: Tokenizer) -> None:
    from rmlab.policies.conversation import PolicyPrompt

    prompt = PolicyPrompt(tokenizer)
    for rollout in [rollout for rollout in play(qwen3) if not rollout.truncated]:
        own = rollout.own_T.astype(int)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], own, [0]])))
        said = [prompt.text(rollout.ids_T[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        messages = rollout.trajectory.messages
        assert said == [m.content for m in messages if m.role == "assistant"]
        text = tokenizer.decode(rollout.ids_T)
        assert text.count("<|im_start|>user") == len(
            said
        )  # every message but the last was answered, and the issue stands first
        assert messages[-1].content.startswith("final ")
        assert "final " not in text
        assert rollout.trajectory.resolved in (True, False)


def test_an_issue_is_tokenised_once_for_all_attempts_at_it(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmlab.policies.conversation import PolicyPrompt

    asked: list[str] = []
    encode = type(tokenizer).encode
    monkeypatch.setattr(type(tokenizer), "encode", lambda self, texts: asked.extend(texts) or encode(self, texts))
    prompt = PolicyPrompt(tokenizer)
    first = prompt.issue("f(1) should return 2 but got 3\n1 def f(x):")
    whole = list(first)
    first += [7]  # a conversation grows from it
    assert prompt.issue("f(1) should return 2 but got 3\n1 def f(x):") == whole
    assert prompt.observation("ok") == prompt.observation("ok")
    assert len(asked) == 2


def test_a_conversation_that_outgrows_the_cache_falls_silent(play: Any, qwen3: Any) -> None:
    found = play(qwen3, capacity=200)
    cut = [rollout for rollout in found if rollout.truncated]
    assert cut
    for rollout in cut:
        assert rollout.trajectory.exit_status == "unfinished"
        assert rollout.trajectory.messages[-2].content.startswith("error: ")
        assert len(rollout.ids_T) <= 200
    assert all(len(rollout.ids_T) <= 200 for rollout in found)


def test_an_issue_beyond_the_cache_is_never_answered(play: Any, qwen3: Any) -> None:
    for rollout in play(qwen3, capacity=40):
        assert rollout.truncated
        assert rollout.trajectory.exit_status == "unfinished"
        assert len(rollout.ids_T) == 40
        assert not rollout.own_T.any()
        assert rollout.trajectory.resolved is False


def test_new_weights_act_after_refresh(
    play: Any, qwen3: Any, sandbox: Sandbox, starter_tasks: LoadedTasks, tokenizer: Tokenizer
) -> None:
    import copy

    import torch

    from rmlab.policies.language_engine import LanguageEngine

    model = copy.deepcopy(qwen3)
    engine = LanguageEngine(
        model, tokenizer, sandbox, EnvironmentConfig(), EngineConfig(slots=4, capacity=448, dtype="bfloat16")
    )
    planned = plan(starter_tasks.part("validation")[:2], ["tiny"], 2)
    before = engine.rollout(planned, SAMPLED, 0).rollouts
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    unchanged = engine.rollout(planned, SAMPLED, 0).rollouts
    engine.refresh()
    after = engine.rollout(planned, SAMPLED, 0).rollouts
    assert all(np.array_equal(a.logprob_T, b.logprob_T) for a, b in zip(before, unchanged, strict=True))
    assert not any(np.array_equal(a.logprob_T, b.logprob_T) for a, b in zip(before, after, strict=True))


def test_what_cannot_be_is_said(sandbox: Sandbox, tokenizer: Tokenizer, qwen3: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from rmlab.policies.language_engine import LanguageEngine

    other = GPT2LMHeadModel(GPT2Config(vocab_size=tokenizer.size, n_embd=16, n_layer=1, n_head=1))
    with pytest.raises(DataError, match="not GPT2Model"):
        LanguageEngine(other, tokenizer, sandbox, EnvironmentConfig(), EngineConfig())
    with pytest.raises(UsageError, match="the model has 512 positions"):
        LanguageEngine(qwen3, tokenizer, sandbox, EnvironmentConfig(), EngineConfig(capacity=513))
    with pytest.raises(UsageError, match=r"engine\.graphs=true"):
        LanguageEngine(qwen3, tokenizer, sandbox, EnvironmentConfig(), EngineConfig(graphs=True))
    with pytest.raises(UsageError, match=r"engine\.dtype=half"):
        LanguageEngine(qwen3, tokenizer, sandbox, EnvironmentConfig(), EngineConfig(dtype="half"))


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_a_gpu_says_what_a_plain_forward_pass_says(
    family: str, sandbox: Sandbox, starter_tasks: LoadedTasks, tokenizer: Tokenizer, request: pytest.FixtureRequest
) -> None:
    """CUDA graphs, programs beside decoding, slots refilled: in float32 to 1e-4, in bfloat16 with a gap that stays small."""
    import copy

    import torch

    from rmlab.policies.language_engine import LanguageEngine

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    model = request.getfixturevalue(family)
    planned = plan(starter_tasks.part("validation")[:12], ["tiny"], 8)
    for dtype, mean, largest in (("float32", 1e-5, 1e-4), ("bfloat16", 0.02, 0.5)):
        engine = LanguageEngine(
            copy.deepcopy(model),
            tokenizer,
            sandbox,
            EnvironmentConfig(),
            EngineConfig(slots=32, capacity=448, prefill_rows=512, dtype=dtype),
            "cuda",
        )
        assert engine.decoder.graphs
        assert engine.overlap
        found = engine.rollout(planned, [SAMPLED, Sampling(0.0, 12)] * (len(planned) // 2), 0).rollouts
        apart = [
            rollout.logprob_T[1:][rollout.own_T[1:]]
            - plain_logprobs(model, rollout, 0.8 if i % 2 == 0 else 1.0)[rollout.own_T[1:]]
            for i, rollout in enumerate(found)
        ]
        assert np.abs(np.concatenate(apart)).mean() < mean
        assert np.abs(np.concatenate(apart)).max() < largest
