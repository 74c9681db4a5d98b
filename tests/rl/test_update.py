"""An update follows the gradient of the loss that is written down here plainly, attempt by attempt, however attempts are read."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rmlab.policies.engine import Rollout
from rmlab.rl.config import Algorithm, AlgorithmConfig, LoopConfig, LossMean
from rmlab.trajectories.record import Trajectory

TOKENS = 40


def rollouts(seed: int = 0) -> list[Rollout]:
    """Three tasks with two to four attempts: an issue in common, messages and observations of different length."""
    rng = np.random.default_rng(seed)
    made = []
    for task, (issue, attempts) in enumerate([(7, 4), (3, 2), (12, 3)]):
        beginning = rng.integers(2, TOKENS, issue)
        for _ in range(attempts):
            pieces = [(beginning, False)]
            for turn in range(int(rng.integers(1, 4))):
                pieces += [] if turn == 0 else [(rng.integers(2, TOKENS, int(rng.integers(1, 5))), False)]
                pieces += [(rng.integers(2, TOKENS, int(rng.integers(1, 6))), True)]
            own_T = np.concatenate([np.full(len(ids), said) for ids, said in pieces])
            logprob_T = np.where(own_T, -rng.random(len(own_T)), 0).astype(np.float32)
            trajectory = Trajectory(f"t{task}", "c", "s", "p", 0, (), "", "submitted", True)
            ids_T = np.concatenate([ids for ids, _ in pieces]).astype(np.int32)
            made.append(Rollout(trajectory, ids_T, own_T, logprob_T))
    silent = Trajectory("t3", "c", "s", "p", 0, (), "", "unfinished", False)
    return [*made, Rollout(silent, np.arange(2, 8, dtype=np.int32), np.zeros(6, np.bool_), np.zeros(6, np.float32))]


def learner(packed: bool, graphed: bool = False) -> Any:
    import torch
    from accelerate import Accelerator

    from rmlab.models.config import ModelConfig
    from rmlab.models.load import scratch_model
    from rmlab.rl.graphed_rows import GraphedRows
    from rmlab.rl.learner import Learner

    class Told(Learner):
        @property
        def packed(self) -> bool:
            return self.told

    shape = ModelConfig(
        hidden_size=16, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate_size=24, max_positions=64
    )
    model = scratch_model(shape, TOKENS, 0).eval()
    made = Told(model, torch.optim.SGD(model.parameters(), lr=1.0), Accelerator(cpu=True), 0, 1e9)
    made.told = packed  # type: ignore[attr-defined]
    if graphed:  # the graphs' rows, of fixed shape, without graphs
        made.prepare_rows = lambda tokens: None
        made.graphs = GraphedRows(model.get_decoder(), 64, capture=False)
        made.graphs.sequences, made.graphs.keys, made.graphs.longest = 2, 64, 8
    return made


def logprobs(model: Any, rollout: Rollout) -> Any:
    import torch

    ids_T = torch.from_numpy(rollout.ids_T.astype(np.int64))
    said = torch.log_softmax(model(input_ids=ids_T[None]).logits[0, :-1], -1).gather(1, ids_T[1:, None])[:, 0]
    return said[torch.from_numpy(rollout.own_T[1:])]


def plain_update(
    model: Any, made: list[Rollout], advantage_N: Any, algorithm: AlgorithmConfig, loop: LoopConfig
) -> None:
    """One conversation at a time; the old policy's log-probabilities first of all."""
    import torch

    rng = np.random.default_rng(3)
    with torch.no_grad():
        old = [logprobs(model, rollout) for rollout in made]
    for _ in range(loop.passes):
        for part in np.array_split(rng.permutation(len(made)), loop.updates):
            tokens, losses = sum(made[i].own_tokens for i in part), []
            for i in part:
                if made[i].own_tokens == 0:
                    continue
                apart = logprobs(model, made[i]) - old[i]
                log_ratio = apart.mean()[None] if algorithm.name is Algorithm.gspo else apart
                ratio, gain = log_ratio.exp(), float(advantage_N[i])
                clipped = ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high)
                worth = torch.minimum(ratio * gain, clipped * gain)
                whole = algorithm.mean is LossMean.token
                losses.append(-(worth.sum() / tokens if whole else worth.mean() / len(part)))
            model.zero_grad()
            sum(losses).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0 if parameter.grad is None else parameter.grad


@pytest.mark.parametrize(("packed", "graphed"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("updates", "passes"), [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize(
    ("name", "mean"),
    [(Algorithm.gspo, LossMean.sequence), (Algorithm.grpo, LossMean.sequence), (Algorithm.grpo, LossMean.token)],
)
def test_weights_move_as_by_the_plain_loss(
    name: Algorithm, mean: LossMean, updates: int, passes: int, packed: bool, graphed: bool
) -> None:
    import torch

    from rmlab.rl.update import update

    made, ours, plain = rollouts(), learner(packed, graphed), learner(False)
    advantage_N = np.random.default_rng(1).normal(size=len(made))
    algorithm = AlgorithmConfig(name=name, mean=mean, clip_low=0.2, clip_high=0.3, ratio_guard=None)
    loop = LoopConfig(updates=updates, passes=passes, batch_tokens=40)
    before = {name: p.detach().clone() for name, p in ours.model.named_parameters()}
    metrics = update(ours, made, advantage_N, algorithm, loop, np.random.default_rng(3))
    plain_update(plain.model, made, advantage_N, algorithm, loop)
    moved = 0.0
    for (key, found), wanted in zip(ours.model.named_parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(found - before[key], wanted - before[key], rtol=0, atol=1e-5)
        moved = max(moved, float((found - before[key]).abs().max().detach()))
    assert moved > 1e-3
    assert metrics["optimizer_steps"] == updates * passes
    if (updates, passes) == (1, 1):
        assert metrics["ratio"] == 1.0, "attempts of the first optimiser step are compared with themselves"


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_measured_of_a_batch_is_of_the_weights_before_the_update(packed: bool) -> None:
    import copy
    from contextlib import contextmanager

    import torch

    from rmlab.rl.update import update

    made, ours = rollouts(), learner(packed)
    start = copy.deepcopy(ours.model)
    with torch.no_grad():
        for parameter in start.parameters():
            parameter.mul_(1.05)
    ours.reference = contextmanager(lambda: iter([start]))
    expected = {"gap": 0.0, "widest": 0.0, "kl": 0.0, "own": 0}
    with torch.no_grad():
        for rollout in made[:-1]:
            said = logprobs(ours.model, rollout)
            apart = (said.numpy() - rollout.logprob_T[rollout.own_T]).astype(np.float64)
            expected["gap"] += np.abs(apart).sum()
            expected["widest"] = max(expected["widest"], np.abs(apart).max())
            expected["kl"] += float((said - logprobs(start, rollout)).sum())
            expected["own"] += rollout.own_tokens
    found = update(
        ours,
        made,
        np.ones(len(made)),
        AlgorithmConfig(),
        LoopConfig(updates=2, batch_tokens=64),
        np.random.default_rng(0),
        with_start=True,
    )
    assert found["rollout_gap"] == pytest.approx(expected["gap"] / expected["own"], rel=1e-4)
    assert found["rollout_gap_max"] == pytest.approx(expected["widest"], rel=1e-4)
    assert found["kl_to_start"] == pytest.approx(expected["kl"] / expected["own"], rel=1e-3)
    assert 0 < found["entropy"] < np.log(TOKENS)


def test_attempts_at_one_task_are_read_together_and_their_issue_counts_once() -> None:
    from rmlab.rl.forward import micro_batches_of

    made = rollouts()
    parts = micro_batches_of(made, SimpleNamespace(packed=True), 40)  # type: ignore[arg-type]
    assert sorted(row for part in parts for row in part) == list(range(len(made)))
    for part in parts:
        by_task = {made[row].trajectory.task_id: made[row] for row in part}
        issues = {"t0": 7, "t1": 3, "t2": 12, "t3": 5}
        tokens = sum(len(made[row].ids_T) - issues[made[row].trajectory.task_id] for row in part)
        assert tokens + sum(issues[task] for task in by_task) <= 40
    assert len(parts) < len(micro_batches_of(made, SimpleNamespace(packed=False), 40))  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_a_gpu_attempts_packed_give_the_padded_log_probabilities_and_gradients() -> None:
    """Flash attention in bfloat16 over rows that share issues, beside padded rows in float32."""
    import torch
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    from rmlab.models.config import ModelConfig
    from rmlab.models.load import scratch_model
    from rmlab.rl.forward import forward
    from rmlab.rl.learner import Learner

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    shape = ModelConfig(
        hidden_size=192, layers=4, heads=6, kv_heads=2, head_dim=64, intermediate_size=512, max_positions=64
    )
    made, found = rollouts(), []
    for precision in ("bf16", "no"):
        AcceleratorState._reset_state(reset_partial_state=True)
        device = Accelerator(mixed_precision=precision)
        model = scratch_model(shape, TOKENS, 0).eval().to("cuda")
        learning = Learner(model, torch.optim.SGD(model.parameters(), lr=1.0), device, 0, 1e9)
        assert learning.packed == (precision == "bf16")
        from rmlab.models.packed import packed_rows

        with packed_rows(model, learning.packed):
            logprob_BT = forward(model, made, learning, 1.0).logprob_BT
        (logprob_BT * torch.linspace(-1, 1, len(made), device="cuda")[:, None]).sum().backward()
        found.append((logprob_BT.detach().cpu(), [p.grad.flatten().float().cpu() for p in model.parameters()]))
    AcceleratorState._reset_state(reset_partial_state=True)
    apart = (found[0][0] - found[1][0]).abs()[
        torch.nn.utils.rnn.pad_sequence([torch.from_numpy(r.own_T) for r in made], True)
    ]
    assert float(apart.mean()) < 0.01
    assert float(apart.max()) < 0.06
    for half, whole in zip(found[0][1], found[1][1], strict=True):
        assert float(torch.nn.functional.cosine_similarity(half, whole, dim=0)) > 0.995
