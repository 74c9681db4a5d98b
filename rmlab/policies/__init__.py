"""Policies: what attempts a task, one action at a time.

policy      the protocol: attempts under way in, one message each out
rollout     many attempts at once through one sandbox
kept        the finished attempts of a collection that is under way
config      a script's behaviour: how it searches, runs, reacts and stops
knowledge   the edits that a script can think of: right ones, and plausible wrong ones
scripted    scripted policies

language model policies:
engine                   the records and the protocol of rollouts: what was said, by which tokens, how likely
language                 from a model folder to attempts
language_prompt          what a policy reads and says, as token ids
language_engine          the engine: slots that are refilled, programs beside decoding
programs_aside           programs beside decoding, each outcome as soon as it is known
demonstrations           what a policy is taught of attempts of mixed quality: the loss on right actions
demonstration_sets       which attempts of which sets may be learned from
demonstrations_repairs   many one-line mistakes in each function of a corpus, and the edits that mend them
held_out                 pass@1 on parts that a policy has not learned from
folder                   a policy's model folder, written whole or not at all
success                  pass@1 with its interval, and how attempts go
"""
