"""An easy family of tasks and a tiny policy that can say every answer to it: what the loop is tried on in seconds.

Every function is `x + 1` with another digit in the 1's place; the policy was shown edits with all ten digits alike, so it solves
a tenth of the tasks, and everything it has to learn is one digit.
"""

from pathlib import Path
from typing import Any

import numpy as np

from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task, write_tasks
from rmlab.trajectories.record import Split

NAMES = ("add", "more", "step", "plus")


def easy_task(part: Split, name: str, digit: int, source: str = "stdlib") -> Task:
    """`def NAME(x): return x + DIGIT`, where DIGIT should be 1."""
    code = f"def {name}(x):\n    return x + {digit}"
    return Task(
        task_id=f"{part}/{name}/{digit}",
        function_id=f"{part}.{name}",
        package="easy",
        source=source,
        cluster=f"{source}-{part}-{name}",
        part=part,
        entry=name,
        context="",
        original=f"def {name}(x):\n    return x + 1",
        code=code,
        lines=(2,),
        operators=("constant",),
        inputs=("(2,)", "(5,)"),
        outputs=("3", "6"),
        public=0,
        public_share=0.0,
    )


def easy_tasks() -> list[Task]:
    """A few for each part of the loop, with the withheld source in evaluation."""
    numbers: dict[Split, int] = {"rl": 3, "validation": 4, "evaluation": 5}  # short names: conversations stay short
    own = [
        easy_task(part, f"{name}_{n}", digit)
        for part, n in numbers.items()
        for name in NAMES[:4]
        for digit in (2, 5, 8)
    ]
    return own + [
        easy_task("evaluation", f"{name}_6", digit, "human_eval") for name in NAMES[2:4] for digit in (2, 5, 8)
    ]


def write_easy_tasks(path: Path) -> None:
    """The tasks as a file, with outputs as this machine gives them."""
    write_tasks(path, easy_tasks(), {"command": "tests"})


def write_easy_policy(folder: Path, steps: int = 60) -> None:
    """Teaches a model of random start to edit the second line, with any digit, and to submit."""
    import torch

    from rmlab.models.config import ModelConfig, TokenizerConfig
    from rmlab.models.load import scratch_model
    from rmlab.models.tokenizer import train_tokenizer
    from rmlab.policies.conversation import PolicyPrompt
    from rmlab.training.batching import SFTExample
    from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
    from rmlab.training.policy import imitate

    conversations = demonstrations(np.random.default_rng(0), 64)
    texts = [content for messages in conversations for _, content in messages]
    tokenizer = train_tokenizer(
        ["<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n", *texts], TokenizerConfig(vocab_size=420)
    )
    prompt = PolicyPrompt(tokenizer)
    lessons = []
    for messages in conversations:
        pieces: list[tuple[list[int], bool]] = []
        for role, content in messages:
            ids = (
                prompt.message(content)
                if role == "assistant"
                else prompt.observation(content)
                if pieces
                else prompt.issue(content)
            )
            pieces.append((ids, role == "assistant"))
        lessons.append(
            SFTExample(
                np.array([i for ids, _ in pieces for i in ids], dtype=np.int32),
                np.array([taught for ids, taught in pieces for _ in ids], dtype=np.bool_),
            )
        )
    torch.set_num_threads(1)
    shape = ModelConfig(
        hidden_size=32, layers=2, heads=2, kv_heads=2, head_dim=16, intermediate_size=64, max_positions=512
    )
    model = scratch_model(shape, tokenizer.size, seed=0)
    imitate(
        model,
        lessons,
        tokenizer.pad_id,
        optimizer=OptimizerConfig(learning_rate=5e-3),
        training=TrainingConfig(epochs=steps / 4, batch_size=16, micro_batch_size=16),
        runtime=MicroBatchRuntimeConfig(progress=False),
        seed=0,
    )
    model.save_pretrained(str(folder))
    tokenizer.save(folder)


def demonstrations(rng: np.random.Generator, number: int) -> list[list[tuple[str, str]]]:
    """Conversations (role, content) of edits with any digit, played in the environment itself."""
    made = []
    with Sandbox(1) as sandbox:
        tasks = [easy_task("supervised", f"{NAMES[i % 4]}_{i % 10}", int(rng.integers(2, 10))) for i in range(number)]
        for i, task in enumerate(tasks):
            episode = Episode(task, EnvironmentConfig())
            _settle(episode, sandbox)
            episode.act(f"edit 2: return x + {i % 10}")
            _settle(episode, sandbox)
            episode.act("submit")
            made.append([(m.role, m.content) for m in episode.messages])
    return made


def _settle(episode: Any, sandbox: Sandbox) -> None:
    while episode.needs is not None:
        episode.receive(sandbox.run([episode.needs])[0])
