"""How fast are attempts scored, beside plain transformers and beside what arithmetic allows; and do scores stay what they are?

    python experiments/benchmarks/scoring.py [--device cuda --only speed numbers long --long-tokens 262144]

speed: the evaluation part of the starter set (32 attempts at each of 200 tasks), models of SmolLM2-135M's shape and random start.
`ours` reads what prompts have in common once, on a GPU in float16, in which it scores there, and in bfloat16 beside it; tokens a second
are always those of the prompts that were asked for. `theirs` is the transformers decoder in bfloat16 on right-padded batches of like
length, its head at the answer alone, the best of a few batch sizes. The floor is the arithmetic of the tokens that have to be read over
the rate of a product of matrices, measured here.
numbers: the same attempts in float32, padded and shared, in another order, and in bfloat16 and float16. With --verifier FOLDER these
are the scores of that trained verifier, of 32 attempts at each of 600 tasks of language_attempts.
long: one prompt of 262,144 tokens through Qwen3-30B-A3B's shape in bfloat16, within the memory of an 80 GB card.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.benchmarks._long_prompt import long
from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.models.heads import pad_right
from rmlab.models.prefix_decoder import can_fuse
from rmlab.models.prefixes import prefix_batches
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.precision import half_precision
from rmlab.verifiers.scoring import score_ids

STARTER = Path(__file__).parents[2] / "rmlab" / "starter"
ANSWER = AnswerTokens(1, 2)


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="*", default=["speed", "numbers", "long"])
    parser.add_argument("--layers", type=int, default=30, help="of SmolLM2's shape")
    parser.add_argument(
        "--tasks", type=int, default=600, help="at most; the starter set has 200 in its evaluation part"
    )
    parser.add_argument("--taught-by", type=int, default=1000, help="attempts, before scores are compared")
    parser.add_argument("--verifier", type=Path, help="folder of a trained verifier: compares its scores")
    parser.add_argument("--long-layers", type=int, default=48)
    parser.add_argument("--long-tokens", type=int, default=262_144)
    given = parser.parse_args(arguments)
    rows: list[BenchmarkRow] = []
    if given.verifier:
        return of_verifier(given.verifier, given.device, given.tasks)
    if {"speed", "numbers"} & set(given.only):
        table, prompts = evaluation_part(given.tasks)
        model = smollm2(given.layers, given.device)
        if "numbers" in given.only:
            chosen = set(sorted({e.trajectory.task_id for e in table})[::4])
            few = [e for e in table if e.trajectory.task_id in chosen]
            rows += numbers(taught(model, given.device, given.taught_by), few, ANSWER, given.device)
        if "speed" in given.only:
            rows += speed(model, prompts, given.device)
        del model
    if "long" in given.only:
        rows += long(given.long_layers, drawn(given.long_tokens, 1), ANSWER, given.device)
    return rows


def starter(part: str, choose: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Encoded attempts of a part of the starter set."""
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.config import PromptConfig
    from rmlab.verifiers.encoding import encode

    pool = [t for t in read_trajectories(STARTER / "trajectories.parquet").trajectories if t.split == part]
    encoded = encode(choose(pool), load_tokenizer(STARTER / "base"), PromptConfig(8192))
    return [e for e in encoded if e.ids is not None]


def evaluation_part(tasks: int) -> tuple[list[Any], list[Any]]:
    """Encoded attempts at some tasks of the starter set's evaluation part, and their prompts' ids."""

    def chosen(pool: list[Any]) -> list[Any]:
        names = sorted({t.task_id for t in pool})
        few = set(names[:: max(len(names) // tasks, 1)][:tasks])
        return [t for t in pool if t.task_id in few]

    encoded = starter("evaluation", chosen)
    prompts = [e.ids for e in encoded]
    lengths = np.array([len(ids) for ids in prompts])
    print(f"{len(prompts):,} attempts, {lengths.sum():,} tokens, median {np.median(lengths):.0f}, most {lengths.max()}")
    return encoded, prompts


def smollm2(layers: int, device: str) -> Any:
    """SmolLM2-135M's shape, float32 weights of random start."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "num_hidden_layers": layers,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "initializer_range": 0.04,
    }
    model: Any = LlamaForCausalLM(LlamaConfig(**shape))
    return model.to(device).eval()


def timed(what: Callable[[], Any], device: str) -> tuple[float, float]:
    """Seconds of the second call, and the most GiB that were allocated in it."""
    for _ in range(2):
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        what()
        if device == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - start
    return took, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0


def speed(model: Any, prompts: Sequence[Any], device: str) -> list[BenchmarkRow]:
    """Tokens of the prompts a second, ours and theirs."""
    asked = sum(map(len, prompts))
    read = sum(len(batch.ids_T) for batch in prefix_batches(prompts, 131072))
    print(f"of {asked:,} tokens {read:,} are read: {1 - read / asked:.1%} are shared", flush=True)
    weights = sum(p.numel() for p in model.model.layers.parameters())
    side = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    product = 2 * side**3 / timed(lambda: [left @ right for _ in range(10)], device)[0] * 10
    floor = 2 * weights * read / product
    print(f"floor {asked / floor:,.0f} tokens/s: {product / 1e12:.0f} TFLOP/s of a product", flush=True)
    found: dict[str, tuple[float, float]] = {}
    own = half_precision(model, device)
    ways = [(own, 131072, True, can_fuse(device)), (own, 131072, True, False), (own, 65536, False, False)]
    if own is not torch.bfloat16:
        ways.insert(0, (torch.bfloat16, 131072, True, can_fuse(device)))  # what it costs to round more finely
    for dtype, tokens, shared, fused in ways:
        for parameter in model.model.layers.parameters():  # as a verifier that was trained in bfloat16 is loaded
            parameter.data = parameter.data.to(dtype if parameter.ndim > 1 else torch.float32)

        def ours(
            dtype: torch.dtype = dtype, tokens: int = tokens, shared: bool = shared, fused: bool = fused
        ) -> np.ndarray:
            return score_ids(model, prompts, ANSWER, 0, batch_tokens=tokens, dtype=dtype, shared=shared, fused=fused)

        start = time.perf_counter()
        if fused:
            ours()
        compiled = f", the first time {time.perf_counter() - start:.1f} s" if fused else ""
        took, memory = timed(ours, device)
        how = f"shared, packed{', fused' if fused else ''}" if shared else "padded"
        what = f"{how}, {tokens:,} tokens a batch, {str(dtype).removeprefix('torch.')}"
        print(f"ours, {what}: {asked / took:,.0f} tokens/s, {memory:.2f} GiB{compiled}", flush=True)
        found[what] = asked / took, memory
    alone = drawn(400, asked // 400)
    took, memory = timed(
        lambda: score_ids(model, alone, ANSWER, 0, batch_tokens=131072, dtype=own, shared=True), device
    )
    found["packed, prompts of 400 tokens with nothing in common"] = sum(map(len, alone)) / took, memory
    print(
        f"ours, prompts of 400 tokens with nothing in common: {sum(map(len, alone)) / took:,.0f} tokens/s", flush=True
    )
    theirs = 0.0
    plain = smollm2(len(model.model.layers), device).to(torch.bfloat16)
    some = prompts[:: max(len(prompts) // 1000, 1)]  # their rate does not depend on how many there are
    for rows in (32, 128, 512):
        took, memory = timed(lambda rows=rows: transformers_scores(plain, some, rows, device), device)  # type: ignore[misc]
        rate = sum(map(len, some)) / took
        print(f"theirs, batches of {rows}: {rate:,.0f} tokens/s, {memory:.2f} GiB", flush=True)
        theirs = max(theirs, rate)
    name, floors = f"scoring, SmolLM2's shape, {1 - read / asked:.0%} shared", {True: asked / floor}
    return [
        row
        for what, (ours, most) in found.items()
        for row in (
            BenchmarkRow(f"{name}: {what}", "tokens/s", ours, floors.get(what.startswith("shared")), theirs),
            BenchmarkRow(f"memory of that: {what}", "GiB", most),
        )
    ]


def drawn(length: int, many: int) -> list[np.ndarray]:
    """Prompts that have nothing in common."""
    rng = np.random.default_rng(0)
    return [rng.integers(3, 49152, length).astype(np.int32) for _ in range(many)]


@torch.inference_mode()
def transformers_scores(model: Any, prompts: Sequence[Any], rows: int, device: str) -> np.ndarray:
    """Scores by the transformers decoder on right-padded batches, the longest prompts first."""
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    score_N = np.empty(len(prompts))
    for start in range(0, len(order), rows):
        batch = order[start : start + rows]
        ids_BT, length_B = (x.to(device) for x in pad_right([prompts[i] for i in batch], 0))
        mask_BT = torch.arange(ids_BT.shape[1], device=device) < length_B[:, None]
        hidden_BTH = model.model(input_ids=ids_BT, attention_mask=mask_BT.long(), use_cache=False).last_hidden_state
        logits_BV = model.lm_head(hidden_BTH[torch.arange(len(batch), device=device), length_B - 1]).float()
        score_N[batch] = torch.sigmoid(logits_BV[:, ANSWER.yes] - logits_BV[:, ANSWER.no]).cpu().numpy()
    return score_N


def taught(model: Any, device: str, examples: int) -> Any:
    """The model after one pass over attempts of the verifier part: scores that mean something, spread as a verifier's are."""
    from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
    from rmlab.training.device import accelerator
    from rmlab.training.supervised import Example, train

    encoded = starter("verifier", lambda pool: pool[:: max(len(pool) // examples, 1)])
    said = [Example(e.ids, ANSWER.target(bool(e.trajectory.resolved))) for e in encoded]
    training = TrainingConfig(epochs=1, dtype=Dtype.bfloat16 if device == "cuda" else Dtype.float32, threads=2)
    runtime = MicroBatchRuntimeConfig(device=device, progress=False)
    recipe = {"optimizer": OptimizerConfig(learning_rate=3e-4), "training": training, "runtime": runtime}
    took = train(model, said, 0, accelerator(training, runtime), seed=0, **recipe)  # type: ignore[arg-type]
    print(f"taught by {len(said):,} attempts in {took.seconds:.1f} s", flush=True)
    return model.eval()


def of_verifier(folder: Path, device: str, tasks: int) -> list[BenchmarkRow]:
    """How far the scores of a trained verifier lie from those of its float32 weights in padded float32 batches. tasks: at most, of the
    evaluation part of language_attempts; the attempts are those of the two warm starts."""
    from rmlab.models.load import load_model
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.verifier import load_verifier

    verifier = load_verifier(folder)
    pool = read_trajectories(STARTER / "language_attempts.parquet").trajectories
    own = [t for t in pool if t.split == "evaluation" and t.policy in ("a_plain", "b_plain")]
    names = sorted({t.task_id for t in own})
    few = set(names[:: max(len(names) // tasks, 1)][:tasks])
    encoded = [e for e in verifier.encode([t for t in own if t.task_id in few]) if e.ids is not None]
    print(f"{len(encoded):,} attempts at {len(few):,} tasks", flush=True)
    model = load_model(folder).to(device).eval()  # load_verifier has put the matrices of its own into bfloat16
    return numbers(model, encoded, verifier.answer, device)


def numbers(model: Any, encoded: Sequence[Any], answer: AnswerTokens, device: str) -> list[BenchmarkRow]:
    """How far scores lie from those of padded float32 batches. encoded: attempts that fit."""
    prompts = [e.ids for e in encoded]

    def scores(tokens: int, shared: bool, dtype: torch.dtype = torch.float32) -> np.ndarray:
        return score_ids(model, prompts, answer, 0, batch_tokens=tokens, dtype=dtype, shared=shared)

    plain = scores(16384, False)
    print(f"float32, padded: scores {plain.min():.3f} to {plain.max():.3f}, standard deviation {plain.std():.3f}")
    ways: dict[str, Callable[[], np.ndarray]] = {
        "bfloat16, shared": lambda: scores(65536, True, torch.bfloat16),
        "float16, shared": lambda: scores(65536, True, torch.float16),
        "bfloat16, padded": lambda: scores(16384, False, torch.bfloat16),
        "float16, padded": lambda: scores(16384, False, torch.float16),
        "float32, shared": lambda: scores(65536, True),
        "float32, shared, other batches": lambda: scores(4096, True),
        "float32, padded, other batches": lambda: scores(2048, False),
    }
    before, rows = reported(encoded, plain), []
    for name, way in ways.items():
        found = way()
        apart = np.abs(found - plain)
        after = reported(encoded, found)
        most = max(abs(after[key] - before[key]) for key in before if before[key] is not None)
        print(f"{name}: off by {apart.max():.1e}, mean {apart.mean():.1e}; AUC and RM@k by {most:.1e}", flush=True)
        for what, value in (("at most", apart.max()), ("in the mean", apart.mean()), ("AUC and RM@k", most)):
            rows.append(BenchmarkRow(f"{name}, off padded float32: {what}", "difference", float(value)))
    return rows


def reported(encoded: Sequence[Any], score_N: np.ndarray) -> dict[str, Any]:
    """AUC, pooled and within task, and RM@k for all k."""
    from rmlab.metrics.report import report
    from rmlab.scores.scores import Scores

    found: dict[str, Any] = report(
        Scores.of_trajectories([e.trajectory for e in encoded], score_N.tolist()), replicates=10
    )
    at_k: dict[str, Any] = found["rm_at_k"]
    return {name: found[name] for name in ("auc_pooled", "auc_within_task")} | at_k


if __name__ == "__main__":
    run_script(main)
