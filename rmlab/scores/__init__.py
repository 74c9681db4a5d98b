"""Score tables: the record that every metric reads, and its files.

answer_logprobs  a score from the log-probabilities of YES and NO
columns          the role of each column of a foreign table; lists in cells
files            rows of a table in CSV, JSONL, JSON, Parquet; their files, packed or not
harness_reports  labels without scores: reports of test harnesses as attempts
joining          a score table and the trajectories that it scores, joined
own_tables       score tables of rmlab itself, read by columns, which is fast
scores           the record that every metric reads: columns of one score table as arrays of length N; the hash of a patch
table            score tables on disk, read and checked
writing          score tables written, whole or not at all
"""
