"""Score tables: the record that every metric reads, and its files.

answer_logprobs  a score from the log-probabilities of YES and NO
columns          the role of each column of a foreign table; lists in cells
files            rows of a table in CSV, JSONL, JSON, Parquet
harness_reports  labels without scores: reports of test harnesses as attempts
joining          a score table and the trajectories that it scores, joined
json_records     records of a JSON file, in whichever of the usual layouts
own_tables       score tables of rmlab itself, read by columns, which is fast
packed           the content of a file that may be packed
scores           the record that every metric reads: columns of one score table as arrays of length N; the hash of a patch
table            score tables on disk, read and checked
wanted           what a table has to hold, whatever its file
writing          score tables written, whole or not at all
"""
