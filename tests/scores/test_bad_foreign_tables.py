"""Whatever stands in a table, it is read or refused in one line."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmlab.errors import DataError, UsageError
from rmlab.scores.columns import column_names
from tests.scores.foreign import LIST_NAMES, NAMES, RECORDS, outcome, read, real

BAD_COLUMNS = {
    "score": "'score': write ROLE=COLUMN",
    "shcore=x": "'shcore=x': write ROLE=COLUMN with one of task_id",
    "score=a,score=b": "names score twice: a and b",
    "yes_logprob=a": "a score needs both yes_logprob and no_logprob",
    "score=a,logprobs=b": "the score is defined by score and by logprobs; name only one",
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
        "record 1: there is no 'final_probe' .there are: iid, prob, label.. --columns names it: correct",
    ),
    "lists of other things": ('{"auroc": [0.5], "n": 3}', "has no lists of records .it has: auroc, n."),
    "two lists": (json.dumps({"a": RECORDS, "b": RECORDS}), "has 2 lists of records"),
    "a number": ("3", "holds int instead of a list of records"),
    "a list of numbers": ("[1, 2]", "record 1: int instead of an object"),
    "columns of two lengths": (
        '{"iid": ["a"], "final_probe": [0.5, 0.5], "label": [1]}',
        "its columns differ in length or type",
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
    with pytest.raises(UsageError, match=r"outcome is never 'success' .its values: 'good'"):
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


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_that_is_no_utf8_is_counted_from_the_start_of_the_file(tmp_path, suffix, mark):
    """Over more bytes than a reader takes at a time."""
    rows = [{"task_id": f"t{n}", "score": 0.5, "resolved": n % 2} for n in range(2000)]
    if suffix == "csv":
        text = "task_id,score,resolved\n" + "".join(f"{row['task_id']},0.5,{row['resolved']}\n" for row in rows)
    else:
        text = json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows))
    data = bytearray(mark + text.encode())
    place = data.index(b"t1999") + 1
    data[place] = 0xFF
    (tmp_path / f"scores.{suffix}").write_bytes(data)
    with pytest.raises(DataError, match=rf" is not UTF-8 text \(byte {place}\): does its suffix name the right format"):
        read(tmp_path / f"scores.{suffix}")
