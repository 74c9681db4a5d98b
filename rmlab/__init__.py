"""rmlab: find out which training choices give a verifier that ranks, discriminates and is calibrated.

errors         what a user can mend, and the exit code it ends with
paths          where the repository, its shipped data and its results are
fingerprint    canonical JSON and the hashes that identify configurations and data
files          writes that are either whole or absent
progress       one progress bar for everything that takes over a few seconds
"""

__version__ = "0.1.0"
