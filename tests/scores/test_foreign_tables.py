"""Score tables of other people: their layouts, their names of columns, and what makes a score of log probabilities."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.errors import DataError
from rmlab.metrics.report import report
from rmlab.scores.answer_logprobs import NoAnswer, Tokens, score_of_logprobs
from tests.scores.foreign import LIST_NAMES, NAMES, RECORDS, read, real

JSON_FILES = {
    "a list of records": RECORDS,
    "one list of records among other things": {"auroc": 0.9, "rows": RECORDS, "notes": ["x"]},
    "records by key": {"a": {"final_probe": 0.25, "label": 1}, "b": {"final_probe": None, "label": None}},
    "lists by column": {"iid": ["a", "b"], "final_probe": [0.25, None], "label": [1, None], "n": 3},
    "values by index by column": {
        "iid": {"0": "a", "1": "b"},
        "final_probe": {"0": 0.25, "1": None},
        "label": {"0": 1, "1": None},
    },
}


@pytest.mark.parametrize("case", JSON_FILES)
def test_json_layouts(tmp_path, case):
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(JSON_FILES[case]))
    scores = read(path, *NAMES).scores
    assert scores.task_id.tolist() == ["a", "b"]
    assert np.array_equal(scores.score, [0.25, np.nan], equal_nan=True)
    assert np.array_equal(scores.resolved, [1, np.nan], equal_nan=True)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_of_other_names_in_every_format(tmp_path, suffix):
    path = tmp_path / f"scores.{suffix}"
    rows = [
        {"iid": "a", "p": 0.5, "outcome": "success", "model": "m"},
        {"iid": "b", "p": 0.25, "outcome": "locked", "model": "n"},
        {"iid": "c", "p": None, "outcome": None, "model": "n"},
    ]
    if suffix == "csv":
        path.write_text("iid,p,outcome,model\na,0.5,success,m\nb,0.25,locked,n\nc,,,n\n")
    elif suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    table = read(path, "task_id=iid,score=p", "resolved=outcome==success,policy=model")
    assert table.scores.policy.tolist() == ["m", "n", "n"]
    assert np.array_equal(table.scores.resolved, [1, 0, np.nan], equal_nan=True)
    assert table.notes == ("resolved: outcome is success (success 1, locked 1, (nothing) 1)",) or len(table.notes) == 1


LISTS = (
    "docker,avg_yes_prob,gt_rewards,regression_rates,mean_predicted_rewards,step_counts\n"
    't1,"[0.9, 0.1]","[1.0, 0.0]","[1.0, 0.5]","[0.0, 1.0]","[10, 20]"\nt2,"[0.5]","[0]","[0.5]","[0.5]","[3]"\nt3,[],[],[],[],[]\n'
)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_lists_in_cells_are_attempts(tmp_path, suffix):
    path = tmp_path / f"scores.{suffix}"
    rows = [
        {
            "docker": "t1",
            "avg_yes_prob": "[0.9, 0.1]",
            "gt_rewards": "[True, False]",
            "regression_rates": "[1.0, 0.5]",
            "mean_predicted_rewards": "[0.0, 1.0]",
        },
        {
            "docker": "t2",
            "avg_yes_prob": "[0.5]",
            "gt_rewards": "[0]",
            "regression_rates": "[0.5]",
            "mean_predicted_rewards": "[0.5]",
        },
        {
            "docker": "t3",
            **dict.fromkeys(("avg_yes_prob", "gt_rewards", "regression_rates", "mean_predicted_rewards"), "[]"),
        },
    ]
    if suffix == "csv":
        path.write_text(LISTS)
    elif suffix == "jsonl":  # real lists
        path.write_text(
            "\n".join(
                json.dumps({k: v if k == "docker" else json.loads(v.lower()) for k, v in row.items()}) for row in rows
            )
        )
    else:  # texts of lists, as Python prints them
        pq.write_table(pa.Table.from_pylist(rows), path)
    table = read(path, LIST_NAMES)
    assert table.scores.task_id.tolist() == ["t1", "t1", "t2"]
    assert table.scores.score.tolist() == [0.9, 0.1, 0.5]
    assert table.scores.resolved.tolist() == [1, 0, 0]
    assert table.regression_N.tolist() == [1.0, 0.5, 0.5]
    assert table.reproduction_N.tolist() == [0.0, 1.0, 0.5]
    assert table.notes == ("3 rows hold lists, with one attempt per item; 1 of them is empty",)
    unnamed = read(path, "task_id=docker,score=avg_yes_prob,resolved=gt_rewards")  # the published names are known
    assert unnamed.regression_N.tolist() == table.regression_N.tolist()
    assert unnamed.reproduction_N.tolist() == table.reproduction_N.tolist()
    assert "results of tests: regression_rates, mean_predicted_rewards" in unnamed.notes


def test_what_stands_for_a_task_that_no_column_names(tmp_path):
    path = tmp_path / "scores.parquet"
    rows = [
        {"avg_yes_prob": "[0.9, 0.1]", "gt_rewards": "[1.0, 0.0]"},
        {"avg_yes_prob": "[0.5]", "gt_rewards": "[0.0]"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    table = read(path, "score=avg_yes_prob,resolved=gt_rewards")
    assert table.scores.task_id.tolist() == ["row 1", "row 1", "row 2"]
    assert table.notes[0] == "task_id: the rows, each of which holds the attempts at one"
    pq.write_table(pa.Table.from_pylist([{**row, "docker_image": "img"} for row in rows]), path)
    assert read(path, "score=avg_yes_prob,resolved=gt_rewards").scores.task_id.tolist() == ["img"] * 3
    single = tmp_path / "scores.csv"
    single.write_text("instance_id,score,resolved\na,0.5,1\nb,0.4,0\n")
    assert (read(single, "score=score").scores.task_id.tolist(), read(single, "score=score").notes) == (
        ["a", "b"],
        ("task_id: the column instance_id",),
    )
    with pytest.raises(DataError, match=r"line 2: there is no 'iid' .there are: instance_id, score, resolved"):
        read(single, "task_id=iid")
    single.write_text("score,resolved\n0.5,1\n")
    with pytest.raises(DataError, match="line 2: there is no 'task_id'"):
        read(single, "score=score")


def test_log_probabilities_make_a_score(tmp_path):
    listed = {"YES": -0.079, "NO": -2.577, " NO": -55.0, "Yes": -59.6, "NOT": -68.3}
    path = tmp_path / "scores.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"task_id": "t", "lp": cell, "resolved": 1})
            for cell in (
                listed,
                [listed],
                [{"token": k, "logprob": v} for k, v in listed.items()],
                json.dumps(listed),
                None,
                {
                    "content": [
                        {"token": "<", "top_logprobs": [{"token": "<", "logprob": -0.01}]},
                        {"token": "YES", "top_logprobs": [{"token": k, "logprob": v} for k, v in listed.items()]},
                    ]
                },
            )
        )
    )
    table = read(path, "logprobs=lp")
    wanted = 1 / (1 + math.exp(-2.577 + 0.079))
    assert table.scores.score == pytest.approx([wanted] * 4 + [np.nan, wanted], nan_ok=True)
    notes = "\n".join(table.notes)
    assert "two-way softmax of 'YES' and 'NO' in 5 attempts" in notes
    assert "other spellings were ignored: ' NO', 'Yes' (2 in all" in notes
    assert "in 1 attempt the answer is not the first token" in notes


def test_pairs_of_log_probabilities_or_logits_make_a_score(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("task_id,a,b,resolved\nt,-0.5,-1.5,1\nt,,,0\nt,-800,-1,1\nt,-1,-inf,1\n")
    assert read(path, "yes_logprob=a,no_logprob=b").scores.score == pytest.approx(
        [1 / (1 + math.exp(-1)), np.nan, 0, 1], nan_ok=True
    )
    path.write_text("task_id,a,b,resolved\nt,3,1,1\n")
    assert read(path, "yes_logit=a,no_logit=b").scores.score == pytest.approx([1 / (1 + math.exp(-2))])
    with pytest.raises(DataError, match=r"line 2: 3\.0 is not a log-probability .*name logits as yes_logit"):
        read(path, "yes_logprob=a,no_logprob=b")


def test_other_spellings_stand_for_the_word_only_where_it_is_not_listed():
    tokens = Tokens()
    assert score_of_logprobs({" Yes": -0.5, "yes": -3.0, " No": -1.5, "NOT": -2.0}, tokens) == pytest.approx(
        1 / (1 + math.exp(-1))
    )
    assert tokens.used == {(" Yes", " No"): 1}
    assert list(tokens.beside) == ["yes"]
    assert score_of_logprobs({"YES": -0.001, "the": -9.0}, tokens) == pytest.approx(1 / (1 + math.exp(-8.999)))
    assert tokens.unlisted == 1
    assert "scores off by at most 0.00012" in "\n".join(tokens.notes())
    with pytest.raises(NoAnswer, match=r"only 'YES' is listed among 2 tokens: the score may be off by 0\.3"):
        score_of_logprobs({"YES": -0.5, "the": -1.0}, tokens)
    with pytest.raises(NoAnswer, match="YES or NO is not the likeliest token at any position"):
        score_of_logprobs([{"the": -0.1, "YES": -3.0}], tokens)
    with pytest.raises(NoAnswer, match=r"0\.9 is not a log-probability"):
        score_of_logprobs({"YES": 0.9, "NO": 0.1}, tokens)


def test_the_published_probe_comes_out(tmp_path):
    folder = real("verifier_scores", tmp_path) / "openinterp_probe"
    table = read(folder / "tier3_combined_detector.json", "task_id=iid,score=final_probe,resolved=sub_class==success")
    found = report(table.scores, replicates=0)
    assert (found["trajectories"], found["resolved_rate"]) == (99, pytest.approx(40 / 99))
    assert found["auc_pooled"] == pytest.approx(0.945339, abs=5e-7)
    assert found["brier"] == pytest.approx(0.183594, abs=5e-7)
    assert found["ece_width_10"] == pytest.approx(0.201480, abs=5e-7)
    other = read(folder / "inflection_results.json", "task_id=iid,score=final_score,resolved=label")
    assert "records are those of 'per_trajectory'" in other.notes
    assert report(other.scores, replicates=0)["auc_pooled"] == pytest.approx(found["auc_pooled"], abs=1e-12)


def test_the_published_tokens_are_read(tmp_path):
    folder = real("verifier_scores", tmp_path) / "r2egym_verifier_notebook"
    tokens = Tokens()
    score = score_of_logprobs(json.loads((folder / "answer_token_top_logprobs.json").read_text()), tokens)
    assert score == pytest.approx(1 / (1 + math.exp(-2.5766336917877197 + 0.07907514274120331)))
    assert tokens.used == {("YES", "NO"): 1}
    assert {" YES", "Yes", " NO", "no"} <= set(tokens.beside)
    assert not {"NOT", "TRUE", "Y", "NE"} & set(tokens.beside)
