"""The arms of `training.py`: the models and examples that all of them train, and the loop of each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from rmlab.benchmark import random_model
from rmlab.models import cost
from rmlab.models.cost import KNOWN, ModelShape, reading, training_flops
from rmlab.training import supervised
from rmlab.training.batching import batches_by_tokens, plan_batches
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.optimizer import adamw
from rmlab.training.supervised import Example


@dataclass(frozen=True)
class Shape:
    """A model's shape, the lengths of its examples, and how its batches are cut."""

    model_shape: ModelShape
    lengths: tuple[int, int]
    batch: int
    micro_tokens: int

    def model(self, device: str = "cpu") -> Any:
        """With random weights, drawn on the device."""
        return random_model(self.model_shape, device)

    def examples(self, number: int) -> list[Example]:
        """Lengths uniform between the two ends."""
        rng = np.random.default_rng(0)
        low, high = self.lengths
        return [
            Example(rng.integers(10, self.model_shape.vocabulary, int(n)).astype(np.int32), 5)
            for n in rng.integers(low, high + 1, number)
        ]

    def operations(self, lengths: Sequence[int]) -> float:
        """Of forward and backward passes over examples of these lengths; see the docstring of `training.py`."""
        return training_flops(self.model_shape, reading(lengths, every_position=True)).model


SHAPES = {
    "smollm2": Shape(KNOWN["SmolLM2-135M"], (200, 600), 64, 32_768),
    "qwen3_0.6b": Shape(KNOWN["Qwen3-0.6B"], (1500, 8000), 16, 20_480),
    "tiny": Shape(ModelShape(64, 3, 4, 2, 16, 96, 200), (10, 40), 8, 128),
}


@dataclass(frozen=True)
class Job:
    """One arm's work. device: where."""

    shape: Shape
    device: str
    steps: int
    skip: int
    profile: bool

    @property
    def training(self) -> TrainingConfig:
        """One pass over as many examples as make the steps."""
        dtype = Dtype.bfloat16
        return TrainingConfig(epochs=1.0, batch_size=self.shape.batch, micro_batch_size=self.shape.batch, dtype=dtype)

    @property
    def runtime(self) -> MicroBatchRuntimeConfig:
        """Micro-batches by tokens."""
        return MicroBatchRuntimeConfig(
            device=self.device, progress=False, micro_batch_tokens=self.shape.micro_tokens, checkpoint_seconds=1e9
        )

    def examples(self) -> list[Example]:
        """Of all steps."""
        return self.shape.examples(self.steps * self.shape.batch)


@dataclass
class Clock:
    """When each step had ended on the device; a profile of the steps behind `skip` where asked for."""

    job: Job
    ends: list[float]
    losses: list[float]
    profiler: Any = None

    def tick(self, loss: float) -> None:
        """A step has ended with this loss."""
        self.ends.append(time.perf_counter())
        self.losses.append(loss)
        if self.job.profile and len(self.ends) == self.job.skip:
            self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self.profiler.start()
            self.ends[-1] = time.perf_counter()

    def shown(self) -> str:
        """The kernels that took longest, and the share of the time in which the device worked."""
        seconds = self.ends[-1] - self.ends[self.job.skip - 1]
        rows = sorted(self.profiler.key_averages(), key=lambda row: -row.self_device_time_total)
        busy = sum(row.self_device_time_total for row in rows) / 1e6
        steps = len(self.ends) - self.job.skip
        lines = [f"  device busy {busy / seconds:.2f} of {seconds / steps * 1e3:.1f} ms a step"]
        for row in rows[:22]:
            share = row.self_device_time_total / 1e6 / busy
            lines.append(
                f"  {share:6.1%} {row.self_device_time_total / 1e3 / steps:9.2f} ms {row.count // steps:6} × {row.key[:110]}"
            )
        return "\n".join(lines)


def ours(**changed: Any) -> Callable[[Job, Clock], list[list[int]]]:
    """Our loop with some settings of its training or runtime changed; returns the lengths of each step."""

    def run(job: Job, clock: Clock) -> list[list[int]]:
        known = {one.name for one in fields(MicroBatchRuntimeConfig)}
        runtime = replace(job.runtime, **{k: v for k, v in changed.items() if k in known})
        own = {one.name for one in fields(TrainingConfig)}
        training = replace(job.training, **{k: v for k, v in changed.items() if k in own})
        examples = job.examples()
        device = accelerator(training, runtime)
        optimizer = OptimizerConfig(learning_rate=1e-5)
        supervised.train(
            job.shape.model(job.device), examples, 0, device, optimizer=optimizer, training=training, runtime=runtime, seed=0,
            log=lambda _, loss, *__: clock.tick(loss),
        )  # fmt: skip
        lengths = [e.tokens for e in examples]
        return [[lengths[i] for i in batch] for batch in plan_batches(lengths, training, 0)]

    return run


def plain(job: Job, clock: Clock) -> list[list[int]]:
    """A loop as it is written by hand: padded batches in random order, a mask, the model's own loss on the answer's label, AdamW."""
    model = job.shape.model(job.device).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5)
    examples = job.examples()
    seen = []
    for start in range(0, len(examples), job.shape.batch):
        batch = examples[start : start + job.shape.batch]
        seen.append([e.tokens for e in batch])
        whole = torch.zeros((), device=job.device)
        for rows in batches_by_tokens(seen[-1], job.shape.micro_tokens // 2):  # its logits would not fit
            ids_BT = torch.zeros(len(rows), max(batch[i].tokens for i in rows), dtype=torch.long)
            for row_T, i in zip(ids_BT, rows, strict=True):
                row_T[: batch[i].tokens] = torch.from_numpy(batch[i].ids)
            length_B = torch.tensor([batch[i].tokens for i in rows])
            mask_BT = (torch.arange(ids_BT.shape[1]) < length_B[:, None]).long().to(job.device)
            with torch.autocast(job.device, torch.bfloat16):
                logits_BTV = model(input_ids=ids_BT.to(job.device), attention_mask=mask_BT).logits
                last_BV = logits_BTV[torch.arange(len(rows)), length_B - 1]
                target_B = torch.tensor([batch[i].target for i in rows], device=job.device)
                loss = cross_entropy(last_BV.float(), target_B, reduction="sum") / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
            whole += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        clock.tick(whole.item())
    return seen


def trl(job: Job, clock: Clock, rows: int = 32) -> list[list[int]]:
    """TRL's SFTTrainer with the answer as the one label of an example; batches of like length, as transformers groups them."""
    import tempfile

    from datasets import Dataset
    from transformers import TrainerCallback
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    examples = job.examples()
    table = Dataset.from_dict(
        {
            "input_ids": [[*map(int, e.ids), e.target] for e in examples],
            "labels": [[-100] * len(e.ids) + [e.target] for e in examples],
        }
    )
    model = job.shape.model(job.device)
    seen: list[int] = []

    class Ends(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seen.append(int(trainer._total_train_tokens))
            clock.tick(float("nan"))

    rows = min(rows, job.shape.batch)
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder, use_cpu=job.device == "cpu", bf16=True, gradient_checkpointing=False, packing=False,
            max_length=None, seed=0, per_device_train_batch_size=rows, num_train_epochs=1, logging_steps=1000,
            save_strategy="no", gradient_accumulation_steps=job.shape.batch // rows, report_to="none", disable_tqdm=True,
            train_sampling_strategy="group_by_length",
        )  # fmt: skip
        trainer = SFTTrainer(
            model=model, args=config, train_dataset=table, processing_class=blank_tokenizer(),
            optimizers=(adamw(model, OptimizerConfig(learning_rate=1e-5)), None), callbacks=[Ends()],
        )  # fmt: skip
        trainer.train()
    lengths = [e.tokens for e in examples]
    if not 0.95 < seen[-1] / sum(lengths) < 1.05:
        raise SystemExit(f"SFTTrainer read {seen[-1]} tokens, the examples have {sum(lengths)}: not the same work")
    batch = job.shape.batch
    return [lengths[start : start + batch] for start in range(0, len(lengths), batch)]


def blank_tokenizer() -> Any:
    """One that SFTTrainer can pad with; it never reads text here."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers does not type it
        tokenizer_object=Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1}, "<pad>")), pad_token="<pad>", eos_token="<eos>"
    )


def without_cudnn(run: Callable[[Job, Clock], list[list[int]]]) -> Callable[[Job, Clock], list[list[int]]]:
    """An arm in which FlashAttention attends in long sequences too."""

    def measure(job: Job, clock: Clock) -> list[list[int]]:
        usual, cost.LONG_MEAN = cost.LONG_MEAN, 1 << 40
        try:
            return run(job, clock)
        finally:
            cost.LONG_MEAN = usual

    return measure


THEIRS = ("plain loop", "TRL")
ARMS: dict[str, Callable[[Job, Clock], list[list[int]]]] = {
    "ours": ours(),
    "ours, compiled": ours(compiled=True),
    "ours, compiled, flash": without_cudnn(ours(compiled=True)),
    "ours, padded": ours(packed=False),
    "ours, padded, compiled": ours(packed=False, compiled=True),
    "ours, checkpointing": ours(checkpointing=True),
    "plain loop": plain,
    "TRL": trl,
}
