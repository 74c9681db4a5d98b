"""rmlab: find out which training choices give a verifier that ranks, discriminates and is calibrated.

errors         errors that a user can fix, and their exit codes
paths          where the repository, its shipped data and its results are
fingerprint    canonical JSON and the hashes that identify configurations and data
files          writes that are either whole or absent; file locks that end with their process
made_before    whether the output file already exists and was made by the same request
stopping       a request to end at the next safe point, with a checkpoint
gpu_memory     what happens when the memory of a GPU is full
wording        singular and plural in messages; suggestions for misspelt names
progress       one progress bar for everything that takes over a few seconds
console_table  tables in a terminal that are never cut
overrides      quoting of overrides, messages for those that Hydra rejects, and Hydra settings that have no effect here
benchmark      the common form of the scripts in experiments/benchmarks: rows, machine, record
configuration  programs of experiments/, and their configurations by Hydra
commands       the commands of `rmlab`, one file each
cli            the `rmlab` command, which joins them
__main__       the process of the command: `rmlab`, `python -m rmlab`
"""

__version__ = "0.1.0"
