"""Verifiers: a language model reads one trajectory and answers YES or NO; its score is the softmax of the two.

config        what a verifier reads and on what it is judged; the semantics versions of its stages
prompt        the one renderer: trajectory to text
visibility    which turns of an attempt a prompt shows
budget        observations cut in the middle, what was cut counted
leaks         no prompt holds the outcome that it asks for
tokens        the tokenizer of verifiers that start from nothing
context       a model has a position for every token of it
encoding      text to token ids, once for all cells; what does not fit the context
answer        YES and NO are one token each, proven in context
objective     what is learned: an answer, a number, which of two; smoothing, difficulty
scoring       scores by batches of tokens
proven        the pool, read and proven once a process or once a launcher
material      what cells are made from: the pool proven, its parts as token ids
out_of_fold   the same by folds of repositories; their scores as one table
verifier      model, tokenizer and how it is asked, as one folder
run_record    what a run leaves in the tracking store
fold_record   what one fold leaves in the run of all folds
judgement     score tables, reports and baselines of one verifier
score_table   score tables on disk
score_table_text      their files, packed or not
score_table_files     rows of a table in CSV, JSONL, JSON, Parquet
score_table_columns   which column of a foreign table is what; lists in cells
answer_logprobs       a score from the log-probabilities of YES and NO
harness_reports       labels without scores: reports of test harnesses as attempts
table_baselines       baselines that need no more than the table
per_turn              the score after every turn
baselines     what a score has to beat; majority and shape: two of them
"""
