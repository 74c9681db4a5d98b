"""Imported by a fork server after everything else: reads what its cells share, and keeps all that is there out of their garbage
collections, which would only copy its memory."""

import gc

from rmlab.ablation.shared import read_announced

read_announced()
gc.collect()
gc.freeze()
