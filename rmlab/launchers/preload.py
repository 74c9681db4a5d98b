"""Imported by a fork server, and nothing else: imports and reads what its environment names (`warmup`).

All of it stays in memory, so garbage collection is off meanwhile (it would take a third of the time) and skips it in the processes
that are forked afterwards (it would copy their memory).
"""

import gc

from rmlab.launchers.warmup import warm_up

gc.disable()
warm_up()
gc.freeze()
gc.enable()
