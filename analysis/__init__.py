"""Figures and tables from tracked runs. One file a figure; each reads runs, never training code.

The figures stand in README.md, a table that `python -m analysis.registry` writes. Imports go down this list only:

summaries     what is shown at the end of a sweep
studies       several sweeps as one study, and the pages of its results
publication   figures of all RL runs together, with captions
foretelling   what the study which_metric_foretells_rl planned, ran and may conclude
verifiers     figures and the table of the verifiers of one sweep
rl            RL runs, and their figures
registry      the figures, each registered where it is defined
sweep         the finished verifiers of one sweep, and how its levels compare
pages         the numbers on pages, marked with their sources and compared with them
presentation  what all figures, tables and pages share: style, captions, names of metrics
quick_yaml    YAML texts as plain values, quickly
"""

import os

# A notebook sets a backend of its own for what it starts, and matplotlib refuses one that is not installed here as soon as it is
# imported. Figures are files.
os.environ["MPLBACKEND"] = "Agg"
