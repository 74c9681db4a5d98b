"""The arms of `trl_sft.py`: the job that all of them train, our loop with and without what makes it fast, and TRL's SFTTrainer."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from rmlab.configuration import compose
from rmlab.models import heads as last_position
from rmlab.models.load import scratch_model
from rmlab.paths import runs_folder
from rmlab.training import batching, supervised
from rmlab.training.batching import plan_batches
from rmlab.training.config import MicroBatchRuntimeConfig
from rmlab.training.device import accelerator
from rmlab.training.optimizer import adamw, learning_rate
from rmlab.training.supervised import Example
from rmlab.verifiers.answer import prove_answers
from rmlab.verifiers.dataset import read_verifier_data
from rmlab.verifiers.prompt import render
from rmlab.verifiers.training import choose


@dataclass(frozen=True)
class Job:
    """What every arm trains: the examples, the shipped settings, and a vocabulary to make the model for."""

    examples: list[Example]
    pad_id: int
    vocabulary: int
    settings: Any
    tokenizer: Any

    def model(self) -> Any:
        """A new model with the same first weights each time."""
        return scratch_model(self.settings.model, self.vocabulary, seed=0)


@dataclass(frozen=True)
class Timed:
    """Tokens a second without the first step, seconds of the whole call, and the loss of every step."""

    speed: float
    seconds: float
    losses: list[float]


def read_job(examples: int, threads: int) -> Job:
    """The demo's verifier at so many examples (a multiple of the batch), one pass."""
    settings: Any = OmegaConf.to_object(
        compose(
            "train_verifier",
            [
                "preset=demo",
                "model=scratch",
                f"data.scale={examples}",
                "training.epochs=1.0",
                f"training.threads={threads}",
            ],
        )
    )
    ready = read_verifier_data(
        Path(settings.data.path), settings.model, settings.prompt, settings.evaluation, runs_folder() / "cache"
    )
    chosen = choose(ready, settings).chosen
    answer = prove_answers(ready.tokenizer, [render(t, ready.tokenizer.reserved) for t in chosen])
    ids = {e.trajectory.trajectory_id: e.ids for e in ready.verifier}
    rows = [Example(ids[t.trajectory_id], answer.target(bool(t.resolved))) for t in chosen]  # type: ignore[arg-type]  # chosen ones fit
    return Job(rows, ready.tokenizer.pad_id, ready.tokenizer.size, settings, ready.tokenizer)


def ours(job: Job) -> Timed:
    """One pass of our own loop."""
    s = job.settings
    ends: list[float] = []
    model, device = job.model(), accelerator(s.training, s.runtime)
    started = time.perf_counter()
    took = supervised.train(
        model,
        job.examples,
        job.pad_id,
        device,
        optimizer=s.optimizer,
        training=s.training,
        runtime=MicroBatchRuntimeConfig(progress=False),
        seed=0,
        log=lambda *_: ends.append(time.perf_counter()),
    )
    seconds = time.perf_counter() - started
    first = sum(len(job.examples[i].ids) for i in plan_batches([len(e.ids) for e in job.examples], s.training, 0)[0])
    return Timed((took.tokens - first) / (ends[-1] - ends[0]), seconds, [row[1] for row in took.history])


def trl(job: Job, sampling: str) -> Timed:
    """One pass of SFTTrainer. sampling: of transformers (random, group_by_length), or `ours` for our very batches."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    s, examples = job.settings, job.examples
    if sampling == "ours":
        plan = plan_batches([len(e.ids) for e in examples], s.training, 0)
        examples = [examples[i] for batch in plan for i in batch]
    rows = Dataset.from_dict(
        {
            "input_ids": [[*map(int, e.ids), e.target] for e in examples],
            "labels": [[-100] * len(e.ids) + [e.target] for e in examples],
        }
    )
    torch.set_num_threads(s.training.threads)
    steps = len(examples) // s.training.batch_size
    model = job.model()
    optimizer = adamw(model, s.optimizer)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate(min(step, steps - 1), steps, s.optimizer) / s.optimizer.learning_rate
    )
    ends: list[float] = []
    seen: list[int] = []

    class Ends(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())
            seen.append(int(trainer._total_train_tokens))

    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            packing=False,
            max_length=None,
            seed=0,
            per_device_train_batch_size=s.training.micro_batch_size,
            num_train_epochs=1,
            logging_steps=1,
            save_strategy="no",
            gradient_accumulation_steps=s.training.batch_size // s.training.micro_batch_size,
            report_to="none",
            disable_tqdm=True,
            max_grad_norm=s.optimizer.gradient_clip,
            train_sampling_strategy="sequential" if sampling == "ours" else sampling,
        )
        trainer = SFTTrainer(
            model=model,
            args=config,
            train_dataset=rows,
            processing_class=job.tokenizer.hf,
            optimizers=(optimizer, schedule),
            callbacks=[Ends()],
        )
        trainer.remove_callback(PrinterCallback)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    if seen[-1] != (there := sum(len(e.ids) + 1 for e in examples)):
        raise SystemExit(f"SFTTrainer read {seen[-1]} tokens, the examples have {there}: not the same work")
    rest = seen[-1] - seen[0] - (steps - 1) * s.training.batch_size  # its sequences hold the answer too
    return Timed(
        rest / (ends[-1] - ends[0]), seconds, [row["loss"] for row in trainer.state.log_history if "loss" in row]
    )


@contextmanager
def put_back(module: Any, name: str, common: Any) -> Iterator[None]:
    """Our loop with one thing of it done as it is done commonly."""
    own = getattr(module, name)
    setattr(module, name, common)
    try:
        yield
    finally:
        setattr(module, name, own)


def all_logits(model: Any, ids_BT: torch.Tensor, length_B: torch.Tensor) -> torch.Tensor:
    """The model's own forward pass: the head on every position, the last layer too; then the one that counts is taken."""
    return model(input_ids=ids_BT).logits[torch.arange(len(length_B)), length_B - 1].float()  # type: ignore[no-any-return]


def unfused(model: Any, config: Any) -> torch.optim.Optimizer:
    """Our optimiser with torch's default implementation (foreach)."""
    groups = adamw(model, config).param_groups
    return torch.optim.AdamW(
        [{"params": g["params"], "weight_decay": g["weight_decay"]} for g in groups],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
    )


def arms(job: Job) -> dict[str, Callable[[], Timed]]:
    """Name to one measurement."""

    def switched(*switches: Callable[[], Any]) -> Callable[[], Timed]:
        def measure() -> Timed:
            with ExitStack() as stack:
                for switch in switches:
                    stack.enter_context(switch())
                return ours(job)

        return measure

    by_hand = {
        "no length buckets": lambda: put_back(batching, "WINDOW_BATCHES", 1),
        "last layer everywhere": lambda: put_back(last_position, "_is_plain_qwen3", lambda decoder: False),
        "head everywhere too": lambda: put_back(supervised, "last_logits", all_logits),
        "AdamW not fused": lambda: put_back(supervised, "adamw", unfused),
    }
    whole = replace(
        job,
        settings=replace(
            job.settings, training=replace(job.settings.training, micro_batch_size=job.settings.training.batch_size)
        ),
    )
    return {
        "ours": lambda: ours(job),
        **{f"ours, {name}": switched(switch) for name, switch in by_hand.items()},
        "ours, none of these": switched(*by_hand.values()),
        "ours, no micro-batches": lambda: ours(whole),
        "TRL": lambda: trl(job, "random"),
        "TRL, group_by_length": lambda: trl(job, "group_by_length"),
        "TRL, our batches": lambda: trl(job, "ours"),
    }
