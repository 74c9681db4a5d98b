"""Any local model scores trajectories: asked in its own chat template, or by its classification head."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rmlab.commands.score import score
from rmlab.errors import DataError, UsageError
from rmlab.models.prefix_decoder import can_share
from rmlab.scores import writing
from rmlab.scores.table import read_score_table
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers import judge_model
from rmlab.verifiers.judge_model import judge_prompt, load_judge, score_prompts
from rmlab.verifiers.per_turn import turns_path
from tests.command_line import rmlab_here
from tests.rl.conftest import write_verifier
from tests.verifiers.examples import episode
from tests.verifiers.tiny_models import LLAMA, write_model

FAMILIES = {
    "qwen2": {"family": "qwen2"},
    "llama": {"family": "llama", "chat": LLAMA, "bos": True},
    "gemma2": {"family": "gemma2", "chat": LLAMA, "bos": True},
    "gpt2 without a chat template": {"family": "gpt2", "chat": None, "bos": True},
    "qwen2 head": {"family": "qwen2", "labels": 1},
    "llama head": {"family": "llama", "chat": LLAMA, "labels": 1},
    "gpt2 head": {"family": "gpt2", "chat": None, "labels": 1},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_do_not_depend_on_padding_or_batches_and_are_the_model_s_own(tmp_path, attempts, name):
    folder = write_model(tmp_path / "model", **FAMILIES[name])
    judge = load_judge(folder, judge_prompt(folder), attempts)
    ids = [e.ids for e in judge.encode(attempts)]
    assert len({len(i) for i in ids}) > 2, "prompts of several lengths, or nothing is padded"
    expected, shares = [], []
    judge.model.config.pad_token_id = (
        None  # else transformers takes the end of a turn, which the prompt may end in, for padding
    )
    for one in ids:  # a prompt alone, by transformers' own call
        with torch.no_grad():
            logits = judge.model(input_ids=torch.from_numpy(one.astype(np.int64))[None]).logits
        margin = (
            logits[0, 0] if judge.answer is None else logits[0, -1, judge.answer.yes] - logits[0, -1, judge.answer.no]
        )
        expected.append(float(torch.sigmoid(margin)))
        answers = None if judge.answer is None else [judge.answer.yes, judge.answer.no]
        shares.append(1.0 if answers is None else float(logits[0, -1].softmax(-1)[answers].sum()))
    assert np.std(expected) > 1e-3
    for side in ("left", "right"):
        for batch_tokens in (1, 100_000):
            found, share = score_prompts(judge.model, ids, judge.answer, side, batch_tokens=batch_tokens, shared=False)
            assert share == pytest.approx(shares, abs=1e-5)
            assert found == pytest.approx(expected, abs=1e-5), (side, batch_tokens)
    assert can_share(judge.model) == (name.split()[0] in ("qwen2", "llama"))
    if can_share(judge.model):  # what prompts have in common is read once, on a CPU without being asked for
        found, share = score_prompts(judge.model, ids, judge.answer, batch_tokens=500)
        assert share == pytest.approx(shares, abs=1e-5)
        assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["qwen2", "gpt2 head"])
def test_the_command_pads_as_the_tokenizer_says_and_gives_the_same_table(tmp_path, pool, name, capsys):
    tables = []
    for side in ("left", "right"):
        folder = write_model(tmp_path / side, side=side, **FAMILIES[name])
        score(pool, str(folder), tmp_path / f"{side}.csv", part="all")
        tables.append(read_score_table(tmp_path / f"{side}.csv"))
        said = "the model would rather say something else" in capsys.readouterr().err
        assert said == ("labels" not in FAMILIES[name]), "random weights know nothing of YES and NO"
    assert tables[0].score == pytest.approx(tables[1].score, abs=1e-5)
    assert len(tables[0]) == 4
    assert (tables[0].n_tokens > 100).all()


def test_a_table_that_is_finished_is_not_scored_again_and_another_does_not_take_its_place(
    tmp_path, pool, attempts, capsys, monkeypatch
):
    folder, table = write_model(tmp_path / "model", "qwen2"), tmp_path / "s.parquet"
    score(pool, str(folder), table, part="all")
    before = table.read_bytes()
    capsys.readouterr()
    write_trajectories(tmp_path / "more.parquet", [*attempts, episode(9, True, part="rl")])
    shutil.copytree(folder, tmp_path / "copy")
    with monkeypatch.context() as patched:
        patched.setattr(judge_model, "load_judge", lambda *_: pytest.fail("it loads the model"))
        score(pool, str(folder), table, part="all")
        score(pool, str(tmp_path / "copy"), table, part="all")  # the same model, the same attempts
        said = f"finished already: {table} (--force scores again)\n"
        assert capsys.readouterr().out == 2 * said
        for more in ({"answers": "good,bad"}, {"per_turn": True}, {"dtype": "bfloat16"}):
            with pytest.raises(UsageError, match=r"holds something else, made by `.*`.*or replace it with --force"):
                score(pool, str(folder), table, part="all", **more)
        with pytest.raises(UsageError, match="holds something else"):
            score(tmp_path / "more.parquet", str(folder), table, part="all")
    assert table.read_bytes() == before
    score(tmp_path / "more.parquet", str(folder), table, part="all", force=True)
    assert len(read_score_table(table)) == 5
    score(pool, str(folder), tmp_path / "s.csv", part="all")
    with pytest.raises(UsageError, match=r"s\.csv is already there, and a CSV cannot say what made it"):
        score(pool, str(folder), tmp_path / "s.csv", part="all")
    score(pool, str(folder), table, part="all", per_turn=True, force=True)
    turns_path(table).unlink()
    score(pool, str(folder), table, part="all", per_turn=True)
    assert turns_path(table).exists(), "killed between the two files it is not finished"
    with monkeypatch.context() as patched:
        patched.setattr(writing, "write_score_table", lambda *_: pytest.fail("killed between the two files"))
        with pytest.raises(pytest.fail.Exception):
            score(tmp_path / "more.parquet", str(folder), table, part="all", per_turn=True, force=True)
    assert not table.exists(), "these turns do not pass for those of the table before"


def test_long_prompts_are_cut_and_counted(tmp_path, capsys):
    folder = write_model(tmp_path / "model", "qwen2", positions=700)
    long = [episode(n, True, attempt=a) for n in range(2) for a in range(2)]
    shown = [*long[:3], long[3]]
    turns = list(shown[0].messages)
    turns[2:2] = [type(turns[0])("assistant", "run"), type(turns[0])("user", "got " + "7" * 3000)]
    object.__setattr__(shown[0], "messages", tuple(turns))
    object.__setattr__(shown[1], "patch", "+" + "x" * 3000)  # a patch is never cut
    write_trajectories(tmp_path / "pool.parquet", shown)
    score(tmp_path / "pool.parquet", str(folder), tmp_path / "s.csv", part="all")
    said = capsys.readouterr().out
    assert "1 are read only in part" in said
    assert "(1 observations cut, 0 turns left out)" in said
    assert "1 do not fit the context (resolved, hand: 1)" in said
    table = read_score_table(tmp_path / "s.csv")
    unscored = table.trajectory_id[np.isnan(table.score)]
    assert unscored.tolist() == [shown[1].trajectory_id]
    judge = judge_prompt(folder)
    assert max(len(e.ids) for e in judge.encode(shown) if e.ids is not None) < 700, "the answer is in the context too"


def test_a_shorter_context_is_asked_for_and_a_longer_one_refused(tmp_path, attempts):
    folder = write_model(tmp_path / "model", "gpt2", chat=None, positions=1500)
    assert judge_prompt(folder).max_tokens == 1500
    assert judge_prompt(folder, max_tokens=400).max_tokens == 400
    with pytest.raises(UsageError, match=r"--max-tokens 2000: .* has only 1500 positions"):
        judge_prompt(folder, max_tokens=2000)


def test_scores_after_every_turn(tmp_path, pool, attempts):
    from rmlab.verifiers.per_turn import read_turn_scores

    folder = write_model(tmp_path / "model", "qwen2")
    score(pool, str(folder), tmp_path / "s.csv", part="all", per_turn=True)
    turns = read_turn_scores(turns_path(tmp_path / "s.csv"))
    table = read_score_table(tmp_path / "s.csv")
    for name, value in zip(table.trajectory_id.tolist(), table.score.tolist(), strict=True):
        assert turns[name][-1][1] == pytest.approx(value, abs=1e-5)


def test_bfloat16_weights_answer_in_float32(tmp_path, attempts):
    for name in ("qwen2", "llama head"):
        folder = write_model(tmp_path / name, **FAMILIES[name])
        exact = load_judge(folder, judge_prompt(folder), attempts)
        judge = load_judge(folder, judge_prompt(folder), attempts, "bfloat16")
        assert next(judge.model.parameters()).dtype == torch.bfloat16
        found = judge.score(judge.encode(attempts)).score
        assert found == pytest.approx(exact.score(exact.encode(attempts)).score, abs=0.1)
        margin = np.log(found / (1 - found))
        rounded = torch.tensor(margin, dtype=torch.float64).bfloat16().double().numpy()
        assert not np.allclose(margin, rounded, rtol=1e-5), "more digits than bfloat16 has"


def test_folders_that_cannot_score_say_why(tmp_path, pool, attempts):
    from safetensors.torch import load_file, save_file

    def refused(folder: Path, message: str, kind: type[Exception] = DataError, **more: str) -> None:
        with pytest.raises(kind, match=message):
            score(pool, str(folder), tmp_path / "s.csv", part="all", **more)

    two = write_model(tmp_path / "two", "qwen2", labels=2)
    refused(two, "a classification head of 2 labels")
    one = write_model(tmp_path / "one", "qwen2", labels=1)
    refused(one, "--answers: .* has a classification head", UsageError, answers="YES,NO")
    weights = load_file(one / "model.safetensors")
    save_file({k: v for k, v in weights.items() if "score" not in k}, one / "model.safetensors", {"format": "pt"})
    refused(one, r"lacks 1 weights of its architecture, first score.weight")
    masked = write_model(tmp_path / "masked", "qwen2")
    config = (masked / "config.json").read_text()
    (masked / "config.json").write_text(config.replace("Qwen2ForCausalLM", "BertForMaskedLM"))
    refused(masked, "is a BertForMaskedLM: a score needs a causal language model")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", r"holds neither a verifier of rmlab \(verifier.json\) nor a model \(config.json\)")
    ours = tmp_path / "ours" / "model"
    write_verifier(ours)
    refused(ours, "--answers is for a model that rmlab has not trained", UsageError, answers="YES,NO")
    refused(masked, "--dtype int8: must be float32 or bfloat16", UsageError, dtype="int8")
    with pytest.raises(UsageError, match="name the score table to write with --out"):
        score(pool, str(masked))


def test_the_hub_without_a_network_is_one_line(tmp_path, pool, monkeypatch):
    from huggingface_hub import constants  # it reads HF_HUB_OFFLINE and HF_HOME when it is imported

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    code, _, err = rmlab_here("score", "-m", "hf:owner/name@main", pool, "-o", tmp_path / "s.csv", "--part", "all")
    assert code == 1
    assert len(err.strip().splitlines()) == 1
    assert "hf:owner/name@main cannot be fetched" in err
    assert "name it" in err
