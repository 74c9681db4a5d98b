"""Policies: agents that attempt a task, one action at a time.

collection       which attempts a collection consists of: of each part so many tasks, by which policies
conversation     what a policy reads and says, as token ids; an attempt in progress
demonstrations   learning from attempts of mixed quality: the loss on correct actions; which attempts of
                 which sets may be learned from
engine           the records and the protocol of rollouts: actions, their tokens and log-probabilities
engine_core      what all rollouts of an engine share: the model in its slots, its prompt, and who executes programs
folder           a policy's model folder, written whole or not at all
language         from a model folder to attempts (no torch: configurations read it)
language_engine  the engine: slots that are refilled, programs run during decoding
policy           the protocol: attempts in progress in, one message each out; a script's behaviour: how it searches,
                 runs, reacts and stops
programs         the programs of many attempts: equal ones run once, also during decoding
repairs          many one-line mistakes in each function of a corpus, and the edits that fix them
rollout          many attempts at once through one sandbox
rollout_processes  processes that play attempts side by side, each with a sandbox of its own
rollout_schedule  which attempt of a rollout prefills, decodes or waits for a program next
scripted         the edits available to scripts, correct ones and plausible wrong ones; scripted policies
success          pass@1 with its interval, and how attempts go; pass@1 on parts that a policy has not learned from
warm_start       a policy trained on demonstrations: its configuration, folders and record
"""
