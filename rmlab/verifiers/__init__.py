"""Verifiers: a language model reads one trajectory and answers YES or NO; its score is the softmax of the two.

config       what a verifier reads and is evaluated on; the semantics versions of its stages; a check that the
             model has enough positions
dataset      the data of cells: the pool and its parts as token ids, read and validated once per process or
             launcher
encoding     text to token ids, once for all cells; what does not fit the context
evaluation   score tables, reports and baselines of one verifier, and what a run or a fold leaves in the store
fold_report  what the verifiers of all folds leave in the store together
judge_model  any local model as a verifier: a language model or a classification head
judge_prompt  how such a model is prompted: template, chat template, answer words
lengths      how many trajectories fit a context
answer       YES and NO are one token each, checked in context; the tokenizer of verifiers with random weights
loaded       a verifier in somebody's own program: `rmlab.load_verifier`
objective    what is learned: an answer, a number, or a preference; smoothing, difficulty
out_of_fold  one verifier per fold of repositories; their scores as one table
per_turn     the score after every turn
precision    the arithmetic of its scores: where float16 takes the place of bfloat16
prompt       the one renderer: trajectory to text; which turns a prompt shows; a check that no prompt holds its outcome
scoring      scores by batches of tokens
tracked      the tracked run that trains a verifier, opened; how long one took before
training     chooses the training set and trains a model on it
truncation   cuts observations in the middle, and counts what was cut
verifier     a model, its tokenizer and its prompt settings, as one folder
"""
