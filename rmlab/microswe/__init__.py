"""micro-SWE: an environment small enough for one GPU and real in every part.

actions      the actions of an agent, and the answer to an unreadable one
episode      one attempt, turn by turn, up to its label; the programs that the edits of a recorded attempt produced
loading      the tasks that hold on this machine
task         the record of a task and its file

build        how tasks are made (`rmlab tasks build`)
sandbox      runs untrusted code so that it can do no harm
"""
