"""Policies: what attempts a task, one action at a time.

policy      the protocol: attempts under way in, one message each out
rollout     many attempts at once through one sandbox
config      a script's behaviour: how it searches, runs, reacts and stops
knowledge   the edits that a script can think of: right ones, and plausible wrong ones
scripted    scripted policies
"""
