"""Verifiers: a language model reads one trajectory and answers YES or NO; its score is the softmax of the two.

config       what a verifier reads and on what it is judged; the semantics versions of its stages; a model has a
             position for every token of it
dataset      what cells are made from: the validated pool, its parts as token ids; the pool, read and validated once a
             process or once a launcher
encoding     text to token ids, once for all cells; what does not fit the context
evaluation   score tables, reports and baselines of one verifier, and what a run or a fold leaves in the store
judge_model  any local model as a verifier: a language model or a classification head
judge_prompt  how such a model is asked: template, chat template, answer words
lengths      how many trajectories fit a context
answer       YES and NO are one token each, proven in context; the tokenizer of verifiers that start from nothing
objective    what is learned: an answer, a number, which of two; smoothing, difficulty
out_of_fold  the same by folds of repositories; their scores as one table
per_turn     the score after every turn
prompt       the one renderer: trajectory to text; which turns of an attempt a prompt shows; no prompt holds the outcome that it asks for
scoring      scores by batches of tokens
training     the training set is chosen, and a model trained on it
truncation   observations cut in the middle, what was cut counted
verifier     model, tokenizer and how it is asked, as one folder
"""
