import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.metrics.report import report
from rmlab.scores.answer_logprobs import NoAnswer, Tokens, score_of_logprobs
from rmlab.scores.columns import column_names
from rmlab.scores.table import read_table

REAL = Path(__file__).parents[3] / "shared" / "data" / "real"
NAMES = ["task_id=iid,score=final_probe,resolved=label"]


def real(name, folder):
    if not (REAL / f"{name}.zip").is_file():
        pytest.skip(f"{REAL} is not here")
    with zipfile.ZipFile(REAL / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder / name


def read(path, *columns):
    return read_table(path, column_names(columns))


def outcome(path, columns):
    """What became of a file: "a table", or the one line that says what is wrong; "" for anything else."""
    try:
        return "a table" if len(read(path, columns).scores) else ""
    except RmlabError as error:
        return "" if "\n" in str(error) else str(error)


RECORDS = [
    {"iid": "a", "final_probe": 0.25, "label": 1, "other": [1, 2]},
    {"iid": "b", "final_probe": None, "label": None},
]
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
LIST_NAMES = "task_id=docker,score=avg_yes_prob,resolved=gt_rewards,regression=regression_rates,reproduction=mean_predicted_rewards"


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
    assert table.notes == ("3 rows hold lists: one attempt an item; 1 of them is empty",)
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
    assert "other spellings are listed and left out: ' NO', 'Yes' (2 in all" in notes
    assert "in 1 attempt the answer is not the first token" in notes


def test_pairs_of_log_probabilities_or_logits_make_a_score(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("task_id,a,b,resolved\nt,-0.5,-1.5,1\nt,,,0\nt,-800,-1,1\nt,-1,-inf,1\n")
    assert read(path, "yes_logprob=a,no_logprob=b").scores.score == pytest.approx(
        [1 / (1 + math.exp(-1)), np.nan, 0, 1], nan_ok=True
    )
    path.write_text("task_id,a,b,resolved\nt,3,1,1\n")
    assert read(path, "yes_logit=a,no_logit=b").scores.score == pytest.approx([1 / (1 + math.exp(-2))])
    with pytest.raises(DataError, match=r"line 2: 3\.0 is no log-probability .*name logits as yes_logit"):
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
    with pytest.raises(NoAnswer, match="no position has YES or NO"):
        score_of_logprobs([{"the": -0.1, "YES": -3.0}], tokens)
    with pytest.raises(NoAnswer, match=r"0\.9 is no log-probability"):
        score_of_logprobs({"YES": 0.9, "NO": 0.1}, tokens)


BAD_COLUMNS = {
    "score": "'score': write ROLE=COLUMN",
    "shcore=x": "'shcore=x': write ROLE=COLUMN with one of task_id",
    "score=a,score=b": "names score twice: a and b",
    "yes_logprob=a": "yes_logprob and no_logprob make a score together",
    "score=a,logprobs=b": "the score comes from score and from logprobs; name one",
    "": "write ROLE=COLUMN",
    "score=": "write ROLE=COLUMN",
}


@pytest.mark.parametrize("text", BAD_COLUMNS)
def test_bad_columns_are_one_line(text):
    with pytest.raises(UsageError, match=BAD_COLUMNS[text]) as caught:
        column_names([text])
    assert "\n" not in str(caught.value)


BAD_TABLES = {
    "another column": (
        '[{"iid": "a", "prob": 0.5, "label": 1}]',
        "record 1: there is no 'final_probe' .there are: iid, prob, label.. --columns names it: mend",
    ),
    "lists of other things": ('{"auroc": [0.5], "n": 3}', "has no lists of records .it has: auroc, n."),
    "two lists": (json.dumps({"a": RECORDS, "b": RECORDS}), "has 2 lists of records"),
    "a number": ("3", "holds int instead of a list of records"),
    "a list of numbers": ("[1, 2]", "record 1: int instead of an object"),
    "columns of two lengths": (
        '{"iid": ["a"], "final_probe": [0.5, 0.5], "label": [1]}',
        "its columns differ in length or kind",
    ),
    "unequal lists": (
        '[{"iid": "a", "final_probe": [0, 0], "label": [1]}]',
        "record 1: its lists differ in length: score 2, resolved 1",
    ),
    "text that is no list": (
        '[{"iid": "a", "final_probe": "[0.5,", "label": 1}]',
        r"record 1: score '\[0.5,' is not readable as a list",
    ),
    "out of range": (
        '[{"iid": "a", "final_probe": [0.5, 1.5], "label": [1, 1]}]',
        r"record 1, item 2: score 1.5 is outside \[0, 1\]",
    ),
    "code in a list": ('[{"iid": "a", "final_probe": "[__import__(1)]", "label": [1]}]', "is not readable as a list"),
    "deep": ("[" * 100_000, "not readable as JSON"),
    "no JSON": ("{'a': 1}", "not readable as JSON"),
    "empty": ("", "not readable as JSON"),
    "an empty list": ("[]", "has no rows"),
    "line ends in names": ('{"a\\nb": [{"c\\nd": 1}]}', "b, record 1: there is no 'iid'"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_one_line(tmp_path, case):
    content, message = BAD_TABLES[case]
    path = tmp_path / "scores.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path, *NAMES)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_that_never_occurs_is_named(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("task_id,score,outcome\nt,0.5,good\n")
    with pytest.raises(UsageError, match=r"outcome is never 'success' .it is: 'good'"):
        read(path, "resolved=outcome==success")


cells = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["[0.5]", "[nan]", "[1,", "{}", '{"YES": -1}', "0.5", "1", "true"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["YES", "NO", "token", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
record = st.dictionaries(
    st.sampled_from(["iid", "final_probe", "label", "rows", "key", "resolved_ids", "a\nb"]), cells, max_size=6
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.lists(record, max_size=3)
    | st.dictionaries(st.text(max_size=3), record | cells, max_size=3)
    | record
    | cells,
    columns=st.sampled_from(
        [NAMES[0], "task_id=iid,logprobs=final_probe,resolved=label", "score=final_probe,resolved=label==x", LIST_NAMES]
    ),
)
def test_any_json_is_a_table_or_one_line(tmp_path, value, columns):
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(value))
    assert outcome(path, columns)


def test_altered_bytes_of_real_tables_are_a_table_or_one_line(tmp_path):
    folder = real("verifier_scores", tmp_path) / "openinterp_probe"
    rng = np.random.default_rng(0)
    cases = [
        (folder / "tier3_combined_detector.json", "task_id=iid,score=final_probe,resolved=sub_class==success"),
        (folder / "v5_cross_model_llama.csv", "task_id=iid,score=tool_diversity_last10,resolved=sub_class==wandering"),
    ]
    for source, columns in cases:
        lines = source.read_bytes().splitlines(keepends=True)
        whole = b"".join(lines[:400] if source.suffix == ".csv" else lines)
        path = tmp_path / source.name
        messages = []
        for _ in range(300):
            altered = bytearray(whole)
            for place in rng.integers(len(whole), size=rng.integers(1, 4)):
                altered[place] = rng.integers(256)
            path.write_bytes(altered)
            messages.append(outcome(path, columns))
        assert all(messages)
        assert set(messages) > {"a table"}, "some are broken, some are not"


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
