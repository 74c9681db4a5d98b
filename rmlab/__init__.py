"""rmlab: find out which training choices give a verifier that ranks, discriminates and is calibrated.

errors         errors that a user can fix, and their exit codes
paths          where the repository, its shipped data and its results are
fingerprint    canonical JSON and the hashes that identify configurations and data
files          writes that are either whole or absent; file locks that end with their process
scratch        temporary folders that vanish with what uses them, however that ends
made_before    whether the output file already exists and was made by the same request
stopping       a request to end at the next safe point, with a checkpoint
gpu_memory     what happens when the memory of a GPU is full
wording        singular and plural in messages; suggestions for misspelt names
progress       one progress bar for everything that takes over a few seconds
console_table  tables in a terminal that are never cut
overrides      quoting of overrides, messages for those that Hydra rejects, and Hydra settings that have no effect here
benchmark      the common form of the scripts in experiments/benchmarks: rows, machine, record
configuration  programs of experiments/, and their configurations by Hydra
configured_values  single values of a composed configuration: set, or refused
commands       the commands of `rmlab`, one file each
cli            the `rmlab` command, which joins them
__main__       the process of the command: `rmlab`, `python -m rmlab`

In a program of your own, `rmlab.load_verifier` gives a trained verifier. Importing rmlab loads nothing heavy; that function does.
"""

# As typing has it, without importing typing: the console script asks for this module before all others.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from rmlab.verifiers.loaded import LoadedVerifier

__version__ = "0.1.0"
__all__ = ["load_verifier"]


def load_verifier(
    name: "str | PathLike[str]", *, device: str = "cpu", over_length: "str | None" = None
) -> "LoadedVerifier":
    """A trained verifier; its `score` takes N attempts and gives N probabilities.

    name: a run's id or its beginning, a cell such as data_scale/demo/4000/s0, or a folder, as `rmlab score --model` takes them.
    Runs are looked up in `$RMLAB_RUNS`, else in `runs/` of the clone, whatever the working folder is.
    device: cpu, cuda, cuda:1 or auto (cuda if available); a GPU scores in float16 where training was in bfloat16. over_length:
    what becomes of an attempt that does not fit the context (rank_last, drop: no score; cut_observations, truncate_middle,
    truncate_head: scored by a part of it); None = as in training.

    Raises StoreError for a run that is not there or has no weights, DataError for a cell or folder without a verifier, UsageError
    for another device or over_length, RmlabError where torch sees no such device; all of these are `rmlab.errors.RmlabError`.
    """
    from rmlab.verifiers.loaded import loaded_verifier

    return loaded_verifier(name, device, over_length)
