"""How many useful tokens a second does the rollout engine decode, beside transformers' generate on the same episodes and batch?

    python experiments/benchmarks/rollouts.py --model FOLDER [--device cuda --dtype bfloat16 --slots 512 --tasks 128 --attempts 8]

Both play the same attempts at the same tasks, multi-turn, programs included. generate plays them in lock-step, as it is used:
every turn it reads all conversations that still run (left-padded) and decodes until the longest message ends. Useful tokens are
those that the policy said. Each is warmed up on a part of the episodes first; both remember what programs did. Without --model a
small model of random start babbles: good to see that it works, not to measure. The engine's log-probabilities are compared with a
plain forward pass of the same weights in float32, which is the gap between rollout and training.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import Sandbox, default_workers
from rmlab.paths import STARTER
from rmlab.policies.engine import EngineConfig, Rollout, Sampling
from rmlab.policies.programs import Executor
from rmlab.policies.rollout import Planned, plan


def generate_episodes(
    model: Any,
    prompt: Any,
    planned: Sequence[Planned],
    executor: Executor,
    sampling: Sampling,
    batch: int,
    device: str,
    pad_id: int,
) -> tuple[int, float]:
    """Plays with transformers' generate, `batch` attempts at a time; returns useful tokens and seconds inside generate."""
    import torch

    said, inside = 0, 0.0
    for start in range(0, len(planned), batch):
        attempts = [(Episode(p.task, EnvironmentConfig()), [0]) for p in planned[start : start + batch]]
        while open_ones := [a for a in attempts if not a[0].done]:
            needing = [e for e, _ in open_ones if e.needs is not None]
            programs = [e.needs for e in needing if e.needs is not None]
            for episode, outcome in zip(needing, executor.run(programs), strict=True):
                episode.receive(outcome)
            ready = [a for a in open_ones if a[0].needs is None and not a[0].done]
            if not ready:
                continue
            for episode, ids in ready:
                content, begins = episode.messages[-1].content, len(episode.messages) == 1
                ids[:] = (
                    prompt.issue(content) if begins else ids + prompt.observation(content, ids[-1] == prompt.stop_id)
                )
            width = max(len(ids) for _, ids in ready)
            ids_BT = torch.tensor([[pad_id] * (width - len(ids)) + ids for _, ids in ready], device=device)
            mask_BT = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for _, ids in ready], device=device)
            before = time.perf_counter()
            with torch.inference_mode():
                made_BT = model.generate(
                    ids_BT,
                    attention_mask=mask_BT,
                    max_new_tokens=sampling.max_action_tokens,
                    do_sample=True,
                    temperature=sampling.temperature,
                    top_k=0,
                    top_p=1.0,
                    eos_token_id=prompt.stop_id,
                    pad_token_id=pad_id,
                    use_cache=True,
                )[:, width:].cpu()
            inside += time.perf_counter() - before
            for (episode, ids), new_T in zip(ready, made_BT.tolist(), strict=True):
                new = new_T[: new_T.index(prompt.stop_id) + 1] if prompt.stop_id in new_T else new_T
                said += len(new)
                ids += new
                episode.act(prompt.text(new))
    return said, inside


def gap(model: Any, rollouts: Sequence[Rollout], temperature: float, device: str) -> dict[str, float]:
    """How far the engine's log-probabilities lie from a plain float32 forward pass over the same tokens (nats a token)."""
    import torch

    from rmlab.training.policy import token_logprobs

    differences = []
    for rollout in rollouts[:64]:
        ids_1T = torch.from_numpy(rollout.ids_T.astype(np.int64))[None].to(device)
        with torch.no_grad():
            plain_1T, _ = token_logprobs(model, ids_1T, torch.from_numpy(rollout.own_T)[None].to(device), temperature)
        differences.append((rollout.logprob_T - plain_1T[0].cpu().numpy())[rollout.own_T])
    difference_N = np.concatenate(differences)
    absolute_N = np.abs(difference_N)
    return {
        "mean": float(difference_N.mean()),
        "mean absolute": float(absolute_N.mean()),
        "largest": float(absolute_N.max()),
    }


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, help="a folder with a model and its tokenizer")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--slots", type=int, default=32, help="conversations at once; generate's batch")
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--capacity", type=int, default=640)
    parser.add_argument("--max-action-tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--skip-generate", action="store_true")
    given = parser.parse_args(arguments)
    with Sandbox(default_workers()) as sandbox:  # before torch is imported
        tasks = load_tasks(STARTER / "tasks.parquet", sandbox).part("rl")
        tasks = sorted(tasks, key=lambda task: fingerprint([0, task.task_id]))[: given.tasks]
        return run(given, plan(tasks, ["benchmark"], given.attempts), sandbox)


def run(given: argparse.Namespace, planned: Sequence[Planned], sandbox: Sandbox) -> list[BenchmarkRow]:
    """Loads the model, plays twice with each, and prints what the second time took. theirs: transformers' generate."""
    import torch

    from rmlab.policies.conversation import PolicyPrompt
    from rmlab.policies.language_engine import LanguageEngine

    torch.set_num_threads(given.threads)
    torch.set_float32_matmul_precision("highest")
    model, tokenizer = the_model(given.model)
    model.to(given.device)
    sampling = Sampling(1.0, given.max_action_tokens)
    config = EngineConfig(slots=given.slots, capacity=given.capacity, prefill_rows=512, dtype=given.dtype)
    engine = LanguageEngine(model, tokenizer, sandbox, EnvironmentConfig(), config, given.device)
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    print(
        f"{len(planned)} episodes, {given.slots} at once, {model.num_parameters():,} parameters, {given.dtype}, {name}"
    )
    engine.rollout(planned, sampling, seed=0)  # captures the graphs, and remembers what the issues' programs give
    before = time.perf_counter()
    rollouts, took = engine.rollout(planned, sampling, seed=1)
    wall = time.perf_counter() - before
    print(
        f"engine:   {took.own_tokens} useful tokens in {wall:.2f} s = {took.own_tokens / wall:,.0f} tokens/s, "
        f"{len(planned) / wall:,.1f} episodes/s; decoding {took.decoding:.2f} s, prefill {took.prefill:.2f} s "
        f"({took.read_tokens} tokens), waiting for programs {took.execution:.2f} s ({took.programs}), other {took.other:.2f} s"
    )
    print(f"log-probabilities, engine - plain float32: {gap(model, rollouts, 1.0, given.device)}")
    what = f"{len(planned)} episodes, {given.slots} at once, {given.dtype}"
    useful, unit = took.own_tokens / wall, "tokens/s"
    if given.skip_generate:
        return [BenchmarkRow(what, unit, useful)]
    acting = model.to(getattr(torch, given.dtype))
    prompt = PolicyPrompt(tokenizer)
    few = planned[: max(len(planned) // 8, 1)]
    generate_episodes(acting, prompt, few, engine.executor, sampling, given.slots, given.device, tokenizer.pad_id)
    before = time.perf_counter()
    said, inside = generate_episodes(
        acting, prompt, planned, engine.executor, sampling, given.slots, given.device, tokenizer.pad_id
    )
    generate_wall = time.perf_counter() - before
    print(
        f"generate: {said} useful tokens in {generate_wall:.2f} s = {said / generate_wall:,.0f} tokens/s, "
        f"{len(planned) / generate_wall:,.1f} episodes/s; inside generate {inside:.2f} s"
    )
    print(f"engine / generate, useful tokens/s: {took.own_tokens / wall / (said / generate_wall):.2f}")
    return [BenchmarkRow(what, unit, useful, theirs=said / generate_wall)]


def the_model(folder: Path | None) -> tuple[Any, Any]:
    """The named model, or a small one of random start with the starter trajectories' tokenizer."""
    from rmlab.models.config import ModelConfig, TokenizerConfig
    from rmlab.models.load import load_model, scratch_model
    from rmlab.models.tokenizer import load_tokenizer, train_tokenizer
    from rmlab.trajectories.store import read_trajectories

    if folder is not None:
        return load_model(folder).eval(), load_tokenizer(folder)
    pool = read_trajectories(STARTER / "trajectories.parquet", ["supervised"])
    tokenizer = train_tokenizer(
        ["\n".join(m.content for m in t.messages) for t in pool.trajectories], TokenizerConfig()
    )
    return scratch_model(ModelConfig(), tokenizer.size, 0).eval(), tokenizer


if __name__ == "__main__":
    run_script(main)
