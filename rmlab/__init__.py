"""rmlab: find out which training choices give a verifier that ranks, discriminates and is calibrated.

errors         what a user can mend, and the exit code it ends with
paths          where the repository, its shipped data and its results are
fingerprint    canonical JSON and the hashes that identify configurations and data
files          writes that are either whole or absent; file locks that end with their process
made_before    whether the file to write is there, made by this very request
stopping       a request to end at the next safe point, with a checkpoint
gpu_memory     what becomes of work that finds the memory of its GPU full
wording        words of messages that depend on a number; names that were meant
progress       one progress bar for everything that takes over a few seconds
overrides      how an override is quoted, what is wrong with one that Hydra refuses, and which settings of Hydra do nothing here
benchmark      the one shape of the scripts in experiments/benchmarks: rows, machine, record
configuration  programs of experiments/, and their configurations by Hydra
commands       what `rmlab NAME` does, one typed file a command
cli            the `rmlab` command: it joins them
__main__       the process of the command: `rmlab`, `python -m rmlab`
"""

__version__ = "0.1.0"
