"""`rmlab`, and `python -m rmlab`: Ctrl-C gives a one-line message even while the command is being imported or Python is exiting."""

import signal
import sys


def main() -> None:
    """The console script."""
    here = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else whoever started this wants it ignored
    if here:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a word, until what says one is imported
    from contextlib import suppress

    from rmlab.stopping import interrupted_at_once

    try:
        if here:
            signal.signal(signal.SIGINT, interrupted_at_once)
        from rmlab.cli import main as command

        if here:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        interrupted_at_once()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # what was to be ended has ended
        with suppress(OSError, ValueError):  # closed: its reader has seen enough
            sys.stdout.flush()
        if here:
            signal.signal(signal.SIGINT, interrupted_at_once)


if __name__ == "__main__":
    main()
