"""`rmlab.load_verifier`: what a program gets is what `rmlab import` and `rmlab score` give, whatever the program does around it."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import rmlab
from rmlab.commands.import_trajectories import import_trajectories
from rmlab.commands.score import score
from rmlab.errors import DataError, MissingArtifact, RmlabError, StoreError, UsageError
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.load import scratch_model
from rmlab.paths import REPOSITORY
from rmlab.scores.table import read_score_table
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.training.config import Dtype
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.loaded import LoadedVerifier
from rmlab.verifiers.prompt import render
from rmlab.verifiers.verifier import Verifier, save_verifier
from tests.verifiers.examples import episodes
from tests.verifiers.tiny_models import write_model

PATCH = "diff --git a/f.py b/f.py\n-    return x\n+    return 2 * x\n"


def conversation(number: int = 2, said: str = "I look first.") -> list[dict[str, Any]]:
    """As chat APIs have it: content parts, a call with and without text beside it, its result."""

    def call(command: str) -> list[dict[str, Any]]:
        arguments = json.dumps({"command": command})
        return [{"id": "1", "type": "function", "function": {"name": "bash", "arguments": arguments}}]

    return [
        {"role": "developer", "content": "You fix bugs."},
        {"role": "user", "content": [{"type": "text", "text": f"f({number}) should be {2 * number}"}]},
        {"role": "assistant", "content": said, "tool_calls": call("cat f.py")},
        {"role": "tool", "tool_call_id": "1", "content": "def f(x):\n    return x"},
        {"role": "assistant", "content": None, "tool_calls": call("sed -i s/x$/2*x/ f.py")},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "final got 4"}]},
        {"role": "assistant", "content": "Done.", "reasoning_content": "It should work."},
    ]


def write(folder: Path, over_length: OverLength, dtype: Dtype = Dtype.float32) -> Path:
    tokenizer = verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))
    shape = ModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate_size=48)
    answer = prove_answers(tokenizer, [render(t) for t in episodes(3)])
    model = scratch_model(shape, tokenizer.size, 0)
    save_verifier(folder, Verifier(model, tokenizer, PromptConfig(600, over_length), answer, dtype))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("verifier") / "model", OverLength.rank_last)


@pytest.fixture(scope="module")
def verifier(folder: Path) -> LoadedVerifier:
    return rmlab.load_verifier(folder)


def test_scores_are_those_of_import_and_score(folder: Path, verifier: LoadedVerifier, tmp_path: Path) -> None:
    """Of chat rows, with and without a patch, one whose last turn repeats its patch, one too long, and of an agent's own format."""
    mini = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"submission": PATCH, "exit_status": "Submitted"},
        "messages": [
            {"role": "user", "content": "f(3) should be 6"},
            {"role": "assistant", "content": "I edit.\n```bash\nsed -i s/x/2/ f.py\n```"},
            {"role": "user", "content": "<returncode>0</returncode>"},
            {"role": "assistant", "content": "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
        ],
    }
    rows: list[dict[str, Any]] = [
        *({"messages": conversation(n), "patch": PATCH} for n in range(4)),
        {"messages": conversation(7)},
        {"messages": [*conversation(8), {"role": "user", "content": PATCH}], "model_patch": PATCH},
        {"messages": [*conversation(9), {"role": "assistant", "content": "long " * 600}], "patch": PATCH},
        {"messages": conversation(10, "half a pair: \ud83d"), "patch": PATCH, "resolved": True},
        mini,
    ]
    lines = [json.dumps({**row, "instance_id": f"o__n-{n}"}) for n, row in enumerate(rows)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    import_trajectories("auto", [str(tmp_path / "rows.jsonl")], tmp_path / "set.parquet")
    score(tmp_path / "set.parquet", str(folder), tmp_path / "scores.parquet")
    table = read_score_table(tmp_path / "scores.parquet")
    of_task = dict(zip(table.task_id.tolist(), table.score.tolist(), strict=True))
    expected = [of_task[f"o__n-{n}"] for n in range(len(rows))]
    found = verifier.score(rows)
    assert [None if e != e else e for e in expected] == pytest.approx(found, abs=1e-6)
    assert [n for n, one in enumerate(found) if one is None] == [6]
    assert len({round(one, 5) for one in found if one is not None}) == 8
    recorded = read_trajectories(tmp_path / "set.parquet").trajectories
    of_records = dict(zip([t.task_id for t in recorded], verifier.score(recorded), strict=True))
    assert [of_records[f"o__n-{n}"] for n in range(len(rows))] == pytest.approx(found, abs=1e-6)


def test_what_has_no_score_says_why(folder: Path, verifier: LoadedVerifier) -> None:
    long = {"messages": [*conversation(), {"role": "tool", "content": "line\n" * 600}], "patch": PATCH}
    silent = {"messages": [*conversation()[:2], {"role": "assistant", "content": ""}]}
    read, unfit, nothing = verifier.details([{"messages": conversation()}, long, silent])
    assert read.score is not None
    assert (read.reason, read.n_read) == (None, read.n_tokens)
    assert (unfit.score, unfit.n_read) == (None, 0)
    assert unfit.reason is not None
    assert f"{unfit.n_tokens:,} tokens does not fit the verifier's context of 600 tokens" in unfit.reason
    assert (nothing.score, nothing.n_tokens, nothing.reason) == (None, 0, "no agent turn")
    assert verifier.score([]) == []
    thought = {"role": "assistant", "reasoning_content": "Hm."}  # what a model says is no mistake of the program
    assert verifier.details([[*conversation()[:2], thought]])[0].reason == "no agent turn"
    cutting = rmlab.load_verifier(folder, over_length="cut_observations")
    (cut,) = cutting.details([long])
    assert cut.score is not None
    assert cut.n_read < 600 < cut.n_tokens == unfit.n_tokens
    said = {"messages": [*conversation(), {"role": "assistant", "content": "long " * 600}]}
    assert "even with its observations cut" in str(cutting.details([said])[0].reason)


def test_what_a_trained_verifier_drops_keeps_its_place(tmp_path: Path) -> None:
    dropping = rmlab.load_verifier(write(tmp_path / "model", OverLength.drop))
    long = [*conversation(), {"role": "assistant", "content": "long " * 600}]
    first, none, last = dropping.score([conversation(1), long, conversation(2)])
    assert none is None
    assert [first, last] == dropping.score([conversation(1), conversation(2)])


def test_tables_and_tuples_of_messages_are_read_as_lists_are(verifier: LoadedVerifier) -> None:
    import numpy as np

    messages = conversation()
    array = np.array(messages, dtype=object)
    (expected,) = verifier.score([{"messages": messages}])
    others: list[Any] = [messages, {"messages": tuple(messages)}, {"messages": array}, tuple(messages)]
    assert verifier.score(others) == [expected] * 4
    assert verifier.score(iter(others[:1])) == [expected]


@pytest.mark.parametrize(
    ("attempts", "message"),
    [
        ({"messages": []}, "expected a list of attempts, not one dict"),
        ("text", "expected a list of attempts, not one str"),
        (None, "expected a list of attempts"),
        (conversation(), r"attempts\[0\] is a message"),
        ([3], r"attempts\[0\] is of type int: expected a list of messages"),
        ([{"patch": PATCH}], r"attempts\[0\] has no format that is known"),
        ([{"messages": "text"}], r"attempts\[0\] has no format that is known"),
        ([{"messages": []}], r'attempts\[0\]\["messages"\] is empty'),
        ([{"messages": conversation(), "patch": 3}], r'\["patch"\] is of type int'),
        (
            [{"messages": conversation(), "patch": PATCH, "test_patch": PATCH}],
            "Name the attempt's own patch model_patch",
        ),
    ],
)
def test_what_is_no_attempt_is_refused(verifier: LoadedVerifier, attempts: Any, message: str) -> None:
    with pytest.raises(RmlabError, match=message):
        verifier.score(attempts)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"content": "x"}, "has no role: it must be one of system"),
        ({"role": "critic", "content": "x"}, "has the role 'critic'"),
        ({"role": "user"}, 'has neither content nor tool_calls: an empty message has content ""'),
        ({"role": "user", "content": 3}, r'\["content"\] is of type int'),
        ({"role": "user", "content": [3]}, r'\["content"\] holds a value of type int'),
        ({"role": "assistant", "tool_calls": [object()]}, r'\["tool_calls"\] holds a value of type object.*model_dump'),
        (object(), r"is of type object: expected a dict with role and content \(`\.model_dump\(\)`"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(verifier: LoadedVerifier, bad: Any, message: str) -> None:
    attempts = [{"messages": conversation()}, {"messages": [*conversation(), bad]}]
    with pytest.raises(DataError, match=rf'^attempts\[1\]\["messages"\]\[7\].*{message}'):
        verifier.score(attempts)


def test_a_run_is_found_by_its_id_and_says_where_its_weights_are_gone(runs_folder: Path, folder: Path) -> None:
    tags = {"sweep": "data_scale", "preset": "demo", "level": "8", "config_hash": "0123456789abcdef"}
    with RunLogger.start(Store.open(), "data_scale", "data_scale=8 s0", kind="verifier", tags=tags) as run:
        run.artifact(folder)
    with RunLogger.start(Store.open(), "data_scale", "data_scale=9 s0", kind="verifier") as bare:
        bare.artifact(folder / "verifier.json")
    expected = rmlab.load_verifier(str(folder.parent)).score([conversation()])
    for name in (run.run_id[:8], "data_scale/demo/8/s0", str(folder)):
        assert rmlab.load_verifier(name).score([conversation()]) == expected, name
    with pytest.raises(MissingArtifact, match=r"its weights are gone\. To train it again"):
        rmlab.load_verifier(bare.run_id)
    with pytest.raises(StoreError, match=r"there is no run 'ffffffff'.*`rmlab runs list` shows the runs"):
        rmlab.load_verifier("ffffffff")


def test_what_is_no_verifier_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"has no verifier\.json: name the folder of a verifier, which `rmlab train` makes"
    ):
        rmlab.load_verifier(tmp_path)
    for name in (str(write_model(tmp_path / "judge", "qwen2")), "hf:somebody/model"):
        with pytest.raises(
            DataError, match="is no verifier that rmlab has trained: `rmlab score --model` scores with other"
        ):
            rmlab.load_verifier(name)
    for given in ({"device": "gpu"}, {"device": "cpu:1"}, {"over_length": "cut"}):
        with pytest.raises(UsageError, match=f"{next(iter(given))}={next(iter(given.values()))}"):
            rmlab.load_verifier(folder, **given)


@pytest.mark.parametrize("dtype", list(Dtype))
def test_the_arithmetic_is_that_of_training_whatever_surrounds_the_call(tmp_path: Path, dtype: Dtype) -> None:
    other = rmlab.load_verifier(write(tmp_path / "model", OverLength.rank_last, dtype))
    attempts = [conversation(n) for n in range(6)]
    expected = other.score(attempts)
    with torch.autocast("cpu", torch.bfloat16):
        assert other.score(attempts) == expected
        assert torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", torch.float16), torch.no_grad():
        assert other.score(attempts) == expected
    assert torch.is_grad_enabled()


def test_threads_may_share_a_verifier(verifier: LoadedVerifier) -> None:
    sets = [[conversation(n, f"thread {n}, {i}") for i in range(8)] for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(verifier.score, sets)) == [verifier.score(one) for one in sets]


def test_many_attempts_are_batched_and_equal_ones_have_one_score(verifier: LoadedVerifier) -> None:
    attempts = [conversation(n % 5) for n in range(40)]
    together = verifier.score(attempts)
    assert len(set(together)) == 5
    assert verifier.score(attempts, batch_tokens=1) == pytest.approx(together, abs=1e-6)


def test_importing_rmlab_is_light_and_the_function_is_there() -> None:
    code = (
        "import rmlab, sys\n"
        "assert callable(rmlab.load_verifier) and rmlab.load_verifier.__doc__\n"
        "print([name for name in ('torch', 'transformers', 'mlflow', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == ("[]\n", "")


def test_what_is_no_conversation_with_an_agent_says_so(verifier: LoadedVerifier) -> None:
    asked = {"role": "user", "content": "fix it"}
    with pytest.raises(DataError, match=r"attempts\[0\] has no message of the agent"):
        verifier.score([[asked]])
    with pytest.raises(DataError, match=r"attempts\[0\] has the key 1: keys must be text"):
        verifier.score([{1: 2, "messages": [asked]}])  # type: ignore[dict-item]  # as a user might
    with pytest.raises(UsageError, match="put it in brackets"):
        verifier.score(b"fix it")  # type: ignore[arg-type]  # likewise
    with pytest.raises(UsageError, match="batch_tokens=0: it must be at least 1"):
        verifier.score([], batch_tokens=0)


@pytest.mark.gpu
def test_a_gpu_by_its_number_scores_alike_and_torch_keeps_its_settings(folder: Path, verifier: LoadedVerifier) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    attempts = [conversation(n) for n in range(20)]
    expected = verifier.score(attempts)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    for number in range(torch.cuda.device_count()):
        on_gpu = rmlab.load_verifier(folder, device=f"cuda:{number}")
        assert f"on cuda:{number}" in repr(on_gpu)
        assert on_gpu.score(attempts) == pytest.approx(expected, abs=1e-4)
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
    assert torch.cuda.current_device() == 0


def test_the_lines_of_readme_run(folder: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    code = readme.split("## Score in your own program\n")[1].split("```python\n")[1].split("```")[0]
    attempts = [(conversation(n), PATCH) for n in range(3)]
    names: dict[str, Any] = {"attempts": attempts}
    exec(code.replace("RUN_ID", str(folder)), names)
    assert names["scores"][names["best"]] == max(names["scores"])
    prompts, completions = zip(*((messages[:2], messages[2:]) for messages, _ in attempts), strict=True)
    environments = [SimpleNamespace(patch=patch) for _, patch in attempts]
    rewards = names["reward"](prompts=prompts, completions=completions, environments=environments, trainer_state=None)
    assert rewards == pytest.approx(names["scores"], abs=1e-6)
