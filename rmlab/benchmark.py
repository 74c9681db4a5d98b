"""The common form of the scripts in experiments/benchmarks: what each measures, and the resulting table and record.

A script has `main(arguments) -> rows` and ends in `run_script(main)`; run alone, it prints its table, and `rmlab bench` tracks the
same rows. Everything that is compared is measured in one call on one machine: our time, that of other software, and the floor set by
bytes and operations.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmlab.models.cost import ModelShape

RECORD = "RMLAB_BENCHMARK_RECORD"
"""Variable of the environment: the file that a script writes its record to, beside printing it."""
HEAD = ("what", "unit", "floor", "ours", "theirs", "ratio")


@dataclass(frozen=True)
class BenchmarkRow:
    """One measurement. what: with the shape, so that the row can be understood alone, and the same in every run: runs are compared by it.

    unit: `tokens/s`, `ms`, `GiB`; with `/s` or as a share (`AUC`, `MFU`) more is better, else less. floor: the best that the machine
    allows. theirs: other software's, or what is compared with. None = not measured.
    """

    what: str
    unit: str
    ours: float
    floor: float | None = None
    theirs: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as good as theirs, and where there is none, as the floor (1 = nothing is left to gain)."""
        other = self.theirs if self.theirs is not None else self.floor
        if other is None or not self.ours or not other:
            return None
        return self.ours / other if self.more_is_better else other / self.ours

    @property
    def more_is_better(self) -> bool:
        """Of this unit."""
        return self.unit.endswith("/s") or self.unit in ("AUC", "MFU", "share", "tokens")


@dataclass(frozen=True)
class BenchmarkRecord:
    """What a script leaves for `rmlab bench`: machine has a name for each fact."""

    rows: tuple[BenchmarkRow, ...]
    machine: dict[str, str]


Main = Callable[[Sequence[str]], Sequence[BenchmarkRow]]


def run_script(main: Main) -> None:
    """Measures, prints machine and table, and leaves the record where `rmlab bench` asks for one. The last line of a script.

    main: takes the arguments of the command line, and raises SystemExit where what it measures is not as it should be.
    """
    load = os.getloadavg()[0]
    rows = main(sys.argv[1:])
    found = machine_facts(load)
    print(f"\n{', '.join(f'{name} {value}' for name, value in found.items())}\n{benchmark_table(rows)}", flush=True)
    if path := os.environ.get(RECORD):
        record = {"rows": [asdict(row) for row in rows], "machine": found}
        Path(path).write_text(json.dumps(record, allow_nan=False), encoding="utf-8")


def read_record(path: Path) -> BenchmarkRecord:
    read = json.loads(path.read_text(encoding="utf-8"))
    return BenchmarkRecord(tuple(BenchmarkRow(**row) for row in read["rows"]), read["machine"])


def machine_facts(load: float) -> dict[str, str]:
    """What a number depends on: processor, cores, load before; card and torch where the script has loaded torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {"processor": processor(), "cores": str(cores), "load": f"{load:.1f}", "python": platform.python_version()}
    for name in ("torch", "transformers"):
        if (module := sys.modules.get(name)) is not None:
            found[name] = str(module.__version__)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["card"] = str(torch.cuda.get_device_name())
    return found


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def random_model(shape: "ModelShape", device: str, positions: int = 1 << 20) -> Any:
    """A causal language model of transformers with this shape (Qwen3, its mixture of experts, or Llama) and random weights, drawn on the
    device; the same on every call."""
    import torch
    import transformers

    kind = "Qwen3Moe" if shape.experts else "Qwen3" if shape.head_norms else "Llama"
    experts = {
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.experts_per_token,
        "moe_intermediate_size": shape.expert_size,
        "norm_topk_prob": True,
        "router_aux_loss_coef": 0.001,
    }
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=positions,
        tie_word_embeddings=shape.tied,
        use_cache=False,
        **(experts if shape.experts else {}),
    )
    torch.manual_seed(0)
    with torch.device(device):
        return getattr(transformers, f"{kind}ForCausalLM")(config)


def benchmark_table(rows: Sequence[BenchmarkRow]) -> str:
    """Rows as a Markdown table. ratio: see `BenchmarkRow.ratio`."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        values = [row.floor, row.ours, row.theirs, row.ratio]
        lines.append(f"| {row.what} | {row.unit} | {' | '.join(_figure(value) for value in values)} |")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    """Three significant digits, thousands apart."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
