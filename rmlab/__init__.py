"""rmlab: find out which training choices give a verifier that ranks, discriminates and is calibrated.

errors         what a user can mend, and the exit code it ends with
paths          where the repository, its shipped data and its results are
fingerprint    canonical JSON and the hashes that identify configurations and data
files          writes that are either whole or absent; file locks that end with their process
stopping       a request to end at the next safe point, with a checkpoint
wording        words of messages that depend on a number
progress       one progress bar for everything that takes over a few seconds
hydra_keys     which of Hydra's own settings do something here
configuration  programs of experiments/, and their configurations by Hydra
commands       what `rmlab NAME` does, one typed file a command
cli            the `rmlab` command: it joins them
__main__       `python -m rmlab`
"""

import sys
from pathlib import Path

# rmlab is used from its clone: experiments/ and hydra_plugins/ lie beside it and are imported by name. The clone comes first,
# so that a folder of the same name where somebody works does not take their place.
if (_clone := str(Path(__file__).resolve().parent.parent)) not in sys.path[:1]:
    sys.path.insert(0, _clone)

__version__ = "0.1.0"
