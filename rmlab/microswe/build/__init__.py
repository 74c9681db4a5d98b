"""Building tasks: from functions of installed packages to bugs with tests, split into parts.

bugs           wrong texts of a function, with a call that shows them
build          all of these in order
call_mistakes  the mistakes that fit in place of a call
clusters       functions too alike to stand on both sides of a split; the part of each cluster
examples       arguments that documentation and tests call a function with
expressions    integers and conditions as parts of a syntax tree
extension      what may be added to the part rl beside a file whose parts are final
fitness        which functions may tasks be made of? Asked when a set is built, and of a finished file by `rmlab tasks
               check`
functions      which functions of installed packages can become tasks
guesses        arguments by the names and annotations of parameters, where there are no examples
inputs         variations of known arguments, and the choice of those that tell most; drawing a few of each kind in turn
joined         several tasks files read as one
operators      all texts that are one small mistake away from a function's
public_call    which failing call the issue shows, and how weak it is as evidence
replacements   the mistakes that fit in place of one expression
resolution     whether a function is self-contained, and what text must travel with it
trial          running originals and mutants: are they deterministic, what do they give
"""
