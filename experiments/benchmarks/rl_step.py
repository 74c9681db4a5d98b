"""How long does one step of reinforcement learning take, where does its time go, and what do runs lose that share a card?

    python experiments/benchmarks/rl_step.py [--device cuda --dtype bfloat16 --slots 256 --groups 40 --attempts 12] [--together 1 2 3]

A step as `rmlab rl` makes it: rollouts with their programs, rewards by execution, the update, the engine takes the weights. Its time
depends on what is said, so a policy is named by --start, or a model of random start and SmolLM2's shape is taught first, for
--teach seconds, by the right actions of the shipped attempts of scripts (rmlab/starter/trajectories.parquet): then it speaks in the
grammar, runs its program and submits, as the policies of experiments/studies/policy_rl do, in their environment `start_over`. It solves
less than those; so advantages are drawn, and every attempt is learned from, as where a verifier pays. The rate is 1e-12: the policy
stays as it is.
--together: so many processes at once on the card, each of which waits for the others before its measured steps.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import Limits, Sandbox
from rmlab.paths import STARTER
from rmlab.trajectories.store import read_trajectories

START_OVER = EnvironmentConfig(edits=Edits.start_over, max_turns=14)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument(
        "--start", type=Path, help="a policy's folder; where it is not there a policy is taught and written to it"
    )
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=576, help="576 is SmolLM2-135M's; a multiple of 192")
    parser.add_argument("--teach", type=float, default=20.0, help="seconds")
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--attempts", type=int, default=12)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=4, help="measured, behind one that warms up")
    parser.add_argument("--workers", type=int, default=8, help="of each process's sandbox")
    parser.add_argument("--together", type=int, nargs="+", default=[1])
    parser.add_argument("--profile", action="store_true", help="also the kernels of one update, and of one rollout")
    parser.add_argument("--barrier", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--member", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Teaches a policy if need be, then measures in one process, and in several at once."""
    given = parsed(arguments)
    with tempfile.TemporaryDirectory() as folder:
        given.start = given.start or Path(folder) / "policy"
        if not given.start.exists():
            teach(given)
        if given.barrier is not None or given.together == [1]:
            with Sandbox(given.workers, Limits(batch_seconds=60.0)) as sandbox:
                took = measure(given, sandbox)
            return [BenchmarkRow(f"step: {name}", "s", took[name]) for name in ("step", "rollout", "update")]
        alone, rows = 0.0, []
        for number in given.together:
            step = members(given, number, Path(folder))
            alone = alone or step
            print(
                f"{number} at once: {step:.2f} s a step of each, {number / step:.2f} steps/s of all; each loses "
                f"{1 - alone / step:.0%} of its speed, all together make {number * alone / step:.2f} times one's steps",
                flush=True,
            )
            rows.append(BenchmarkRow(f"step of each of {number} at once", "s", step))
        return rows


def members(given: argparse.Namespace, number: int, folder: Path) -> float:
    """Seconds of a step, the mean over processes that measure at once."""
    barrier = folder / f"barrier-{number}"
    barrier.mkdir()
    own = ["device", "dtype", "start", "slots", "groups", "attempts", "batch_tokens", "steps", "workers"]
    arguments = [part for name in own for part in (f"--{name.replace('_', '-')}", str(getattr(given, name)))]
    command = [sys.executable, __file__, *arguments, "--together", str(number), "--barrier", str(barrier)]
    started = [subprocess.Popen([*command, "--member", str(n)]) for n in range(number)]
    if any(process.wait() for process in started):
        raise SystemExit(f"one of {number} processes failed")
    found = [json.loads((barrier / f"took-{n}").read_text()) for n in range(number)]
    return float(statistics.mean(found))


def wait_for_others(given: argparse.Namespace) -> None:
    """Says that this process is ready, and waits until all are."""
    if given.barrier is None:
        return
    (given.barrier / f"ready-{given.member}").touch()
    while len(list(given.barrier.glob("ready-*"))) < given.together[0]:
        time.sleep(0.01)


def teach(given: argparse.Namespace) -> None:
    """Writes a policy that has learned how scripts speak."""
    shown = read_trajectories(STARTER / "trajectories.parquet", ["supervised"]).trajectories[:1000]
    before = time.perf_counter()
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rmlab.models.config import TokenizerConfig
    from rmlab.models.tokenizer import train_tokenizer
    from rmlab.policies.conversation import PolicyPrompt
    from rmlab.policies.demonstrations import lessons
    from rmlab.policies.folder import save_policy
    from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
    from rmlab.training.policy import imitate

    tokenizer = train_tokenizer(
        ["<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n", *(m.content for t in shown for m in t.messages)],
        TokenizerConfig(vocab_size=8000),
    )
    taught = lessons(shown, PolicyPrompt(tokenizer), 768, 6).lessons
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=given.hidden,
        intermediate_size=given.hidden * 8 // 3,
        num_attention_heads=given.hidden // 64,
        num_key_value_heads=given.hidden // 192,
        num_hidden_layers=given.layers,
        vocab_size=8000,
        max_position_embeddings=2048,
        head_dim=64,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    print(f"{len(taught)} lessons after {time.perf_counter() - before:.1f} s, {tokenizer.size} tokens", flush=True)
    before, epochs = time.perf_counter(), 0
    while time.perf_counter() - before < given.teach:
        few = taught[2048 * epochs % len(taught) :][:2048] if given.device == "cuda" else taught[:128]
        took = imitate(
            model,
            few,
            tokenizer.pad_id,
            optimizer=OptimizerConfig(learning_rate=5e-4, warmup_fraction=0.1),
            training=TrainingConfig(epochs=1, batch_size=32, micro_batch_size=32, dtype=Dtype(given.dtype), threads=4),
            runtime=MicroBatchRuntimeConfig(device=given.device, progress=False),
            seed=epochs,
        )
        epochs += 1
    print(f"taught {epochs} times, {time.perf_counter() - before:.1f} s, loss {took.history[-1]}", flush=True)
    save_policy(given.start, model, tokenizer, {})


def measure(given: argparse.Namespace, sandbox: Sandbox) -> dict[str, float]:
    """Prints each step's shares and their medians, and returns those."""
    tasks = load_tasks(STARTER / "tasks.parquet", sandbox).part("rl")
    import torch

    from rmlab.gpu_memory import most_held, most_in_tensors
    from rmlab.models.config import LoraConfig
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.policies.engine import EngineConfig
    from rmlab.policies.language_engine import LanguageEngine
    from rmlab.rl.batch import RolloutContext, TaskSampler
    from rmlab.rl.config import AlgorithmConfig, ArithmeticConfig, LoopConfig, RewardConfig
    from rmlab.rl.learner import make_learner
    from rmlab.training.config import Dtype, OptimizerConfig, RuntimeConfig
    from rmlab.training.device import accelerator

    device = accelerator(ArithmeticConfig(Dtype(given.dtype), 4), RuntimeConfig(device=given.device))
    tokenizer = load_tokenizer(given.start)
    learner = make_learner(given.start, LoraConfig(), OptimizerConfig(learning_rate=1e-12), 0, tokenizer.pad_id, device)
    cuda = given.device == "cuda"
    engine = LanguageEngine(
        learner.model,
        tokenizer,
        sandbox,
        START_OVER,
        EngineConfig(slots=given.slots, capacity=768, prefill_rows=512 if cuda else 32, dtype=given.dtype),
        given.device,
    )
    loop = LoopConfig(groups=given.groups, attempts=given.attempts, updates=1, batch_tokens=given.batch_tokens)
    tasks = sorted(tasks, key=lambda task: fingerprint([0, task.task_id]))
    context = RolloutContext(
        engine,
        TaskSampler(tasks, 0),
        None,
        {task.task_id: task for task in tasks},
        RewardConfig(),
        AlgorithmConfig(),
        loop,
        "benchmark",
        0,
    )
    name = torch.cuda.get_device_name() if cuda else "cpu"
    print(
        f"{name}, torch {torch.__version__}, {given.dtype}, {learner.model.num_parameters():,} parameters", flush=True
    )
    step(learner, context, 0, given)  # captures and compiles
    step(learner, context, 1, given)
    wait_for_others(given)
    made = [step(learner, context, number, given) for number in range(2, 2 + given.steps)]
    wait = {name: statistics.median(one[name] for one in made) for name in made[0]}
    print(f"median of {given.steps}: " + shares(wait), flush=True)
    if (held := most_held()) is not None:
        print(f"{held:.1f} GiB of the GPU at most, {most_in_tensors() or 0:.1f} GiB of it in tensors", flush=True)
    if given.barrier is not None:
        (given.barrier / f"took-{given.member}").write_text(json.dumps(statistics.mean(one["step"] for one in made)))
    if given.profile and cuda:
        profiled(learner, context, given)
    return wait


def step(learner: Any, context: Any, number: int, given: argparse.Namespace) -> dict[str, float]:
    """One step as `rmlab.rl.loop.Loop` makes it, with drawn advantages; its shares in seconds, and what was said."""
    import torch

    from rmlab.rl.batch import make_batch
    from rmlab.rl.update import update

    began = time.perf_counter()
    batch = make_batch(context, number)
    rolled = time.perf_counter()
    drawn_N = np.random.default_rng(number).choice([-1.0, 1.0], len(batch.rollouts))
    rng = np.random.default_rng(number)
    learned = update(learner, batch.rollouts, drawn_N, context.algorithm, context.config, rng)
    if given.device == "cuda":
        torch.cuda.synchronize()
    updated = time.perf_counter()
    context.engine.refresh()
    if given.device == "cuda":
        torch.cuda.synchronize()
    ended = time.perf_counter()
    lengths = [len(r.ids_T) for r in batch.rollouts]
    found = {
        "step": ended - began,
        "rollout": rolled - began,
        "decoding": batch.metrics["seconds_decoding"],
        "prefill": batch.metrics["seconds_prefill"],
        "programs": batch.metrics["seconds_execution"],
        "update": updated - rolled,
        "refresh": ended - updated,
        "tokens": sum(lengths) / len(lengths),
        "own": sum(r.own_tokens for r in batch.rollouts) / len(lengths),
        "turns": batch.metrics["turns"],
        "resolved": batch.metrics["true_rate"],
        "gap": learned["rollout_gap"],
        "signal": batch.metrics["signal_share"],
        "longest": float(max(lengths)),
    }
    print(f"step {number}: {shares(found)}", flush=True)
    return found


def shares(found: dict[str, float]) -> str:
    """One line."""
    return (
        f"{found['step']:.2f} s: rollout {found['rollout']:.2f} (decoding {found['decoding']:.2f}, prefill {found['prefill']:.2f}, "
        f"waiting for programs {found['programs']:.2f}), update {found['update']:.2f}, "
        f"refresh {found['refresh']:.3f}; an attempt has {found['tokens']:.0f} tokens (most {found['longest']:.0f}), "
        f"{found['own']:.0f} of its own, {found['turns']:.1f} turns; resolved {found['resolved']:.3f}, "
        f"signal {found['signal']:.2f}, gap {found['gap']:.4f} nats"
    )


def profiled(learner: Any, context: Any, given: argparse.Namespace) -> None:
    """Prints where the host's time goes in a rollout, and the device's, by kernel: in a rollout, and in the update."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from rmlab.rl.batch import make_batch
    from rmlab.rl.update import update

    host = cProfile.Profile()
    host.runcall(make_batch, context, 1)
    pstats.Stats(host).sort_stats("tottime").print_stats(16)
    with profile(activities=[ProfilerActivity.CUDA]) as traced:
        before = time.perf_counter()
        batch = make_batch(context, 0)
        wall = time.perf_counter() - before
    _kernels(f"rollout of {wall:.2f} s", traced)
    drawn_N = np.random.default_rng(0).choice([-1.0, 1.0], len(batch.rollouts))
    with profile(activities=[ProfilerActivity.CUDA]) as traced:
        before = time.perf_counter()
        rng = np.random.default_rng(0)
        update(learner, batch.rollouts, drawn_N, context.algorithm, context.config, rng)
        torch.cuda.synchronize()
        wall = time.perf_counter() - before
    _kernels(f"update of {wall:.2f} s", traced)


def _kernels(title: str, traced: Any, most: int = 18) -> None:
    took: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for event in traced.events():
        if str(event.device_type).endswith("CUDA"):
            took[event.name[:90]] += event.device_time_total
            count[event.name[:90]] += 1
    print(f"{title} (profiled): kernels {sum(took.values()) / 1e6:.2f} s, {sum(count.values()):,} of them")
    for name, microseconds in took.most_common(most):
        print(f"  {microseconds / 1e3:9.1f} ms {count[name]:7,} × {name}")
    sys.stdout.flush()


if __name__ == "__main__":
    run_script(main)
