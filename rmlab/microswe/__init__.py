"""micro-SWE: an environment small enough for one GPU and real in every part.

actions      the actions an agent has, and what is answered to one that cannot be read
episode      one attempt, turn by turn, up to its label; the programs that a recorded attempt's edits made
loading      the tasks that hold on this machine
task         the record of a task and its file
values       outputs as text: encoding, comparison, what is shown

build        tasks, and how they come about (`rmlab tasks build`)
sandbox      code that anyone wrote, run so that it can harm nothing
"""
