"""micro-SWE: an environment small enough for one GPU and real in every part (design.md section 7).

Tasks, and how they come about (`rmlab tasks build`):

task           the record of a task and its file
functions      which functions of installed packages can become tasks
resolution     whether a function is self-contained, and what text must travel with it
examples       arguments that documentation and tests call a function with
guesses        arguments by the names and annotations of parameters, where there are no examples
inputs         variations of known arguments, and the choice of those that tell most
operators      all texts that are one small mistake away from a function's
replacements   the mistakes that fit in place of one expression
beside         what may be added to the part rl beside a file whose parts are final
apart          which of those tasks teach demonstrations instead
trial          running originals and mutants: are they deterministic, what do they give
public_call    which failing call the issue shows, and how weak it is as evidence
clusters       functions too alike to stand on both sides of a split
parts          the part of each cluster
turns          drawing a few from many without one kind crowding out the others
build          all of these in order

Attempts at tasks:

loading        the tasks that hold on this machine
grammar        the actions an agent has, and what is answered to one that cannot be read
episode        one attempt, turn by turn, up to its label
replay         the programs that a recorded attempt's edits made
values         outputs as text: encoding, comparison, what is shown
sandbox/       where programs run
"""
