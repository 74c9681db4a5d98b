import pytest

from rmlab.scores.scores import Scores, patch_hash
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table

A = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n context\n-  old = 1\n+  new = 1\n more\n"
B = "diff --git a/y.py b/y.py\n--- a/y.py\n+++ b/y.py\n@@ -7 +7 @@\n-z\n+w\n"


@pytest.mark.parametrize(
    "same",
    [
        B + A,
        A.replace(" context\n", "").replace(" more\n", "").replace("-1,3 +1,3", "-2,1 +2,1") + B,
        A.replace("@@ -1,3 +1,3 @@", "@@ -11,3 +11,3 @@ def f():") + B,
        A.replace("+  new = 1", "+  new  =  1  ") + B,
        (A + B).replace("\n", "\r\n"),
    ],
)
def test_order_of_files_context_and_spaces_do_not_count(same):
    assert patch_hash(same) == patch_hash(A + B)


@pytest.mark.parametrize(
    "other",
    [
        A,
        A.replace("+  new", "+    new") + B,
        A.replace("new = 1", "new = 2") + B,
        A.replace("x.py", "u.py") + B,
        A.replace("-  old", "+  old") + B,
        "",
    ],
)
def test_other_changes_other_files_and_other_indentation_are_other_patches(other):
    assert patch_hash(other) != patch_hash(A + B)


def test_a_deleted_line_of_dashes_is_no_head_of_a_file():
    one = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- a comment\n keep\n"
    assert patch_hash(one) != patch_hash(one.replace("a comment", "another"))


def test_a_patch_of_micro_swe_is_exact_and_a_hash_stays():
    assert patch_hash("3- x = 1\n3+ x = 2") != patch_hash("3- x = 1\n3+ x  = 2")
    assert patch_hash(patch_hash(A)) == patch_hash(A)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_column_is_kept_by_every_format_and_left_out_where_no_attempt_has_one(tmp_path, suffix):
    patches = [patch_hash(A), patch_hash(B), ""]
    path = tmp_path / f"scores.{suffix}"
    write_score_table(path, Scores.of(["t"] * 3, [0.5] * 3, [1, 0, 1], patch=patches))
    assert read_score_table(path).patch.tolist() == patches
    write_score_table(path, Scores.of(["t"], [0.5], [1]))
    assert read_score_table(path).patch.tolist() == [""]
    assert b"patch" not in path.read_bytes()


def test_a_foreign_table_may_hold_whole_patches(tmp_path):
    path = tmp_path / "scores.jsonl"
    row = '{"task_id": "t", "score": 0.5, "resolved": true, "patch": %s}\n'
    path.write_text(row % '""' + row % "null" + row % '"3- a\\n3+ b"')
    assert read_score_table(path).patch.tolist() == [patch_hash(""), "", patch_hash("3- a\n3+ b")]
