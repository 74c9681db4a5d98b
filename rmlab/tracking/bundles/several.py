"""The bundles that a path names, and the runs in them: a run that lies in several of them counts once."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Lock

from rmlab.errors import DataError, UsageError
from rmlab.progress import progress
from rmlab.tracking.bundles.opening import is_bundle, open_bundle
from rmlab.tracking.bundles.reading import Bundle, BundledRun
from rmlab.tracking.tags import IMPORTED_RUN


def bundles_of(path: Path) -> list[Path]:
    """A bundle itself, or the bundles that lie below a folder; none where it is something else.

    Raises DataError that names every *.zip below the folder which is no zip archive, or was cut short.
    """
    if is_bundle(path):
        return [path]
    there = sorted(path.rglob("*.zip")) if path.is_dir() else []
    if damaged := [str(one) for one in there if not one.is_dir() and not is_bundle(one)]:
        raise DataError(f"no bundle, or cut short on its way: {', '.join(damaged)}. Get it again, or take it away.")
    return [one for one in there if is_bundle(one)]


def bundles_named(source: str | None) -> list[Path]:
    """The bundles that a source of runs names; none where it is a store, by its URL or file, or None.

    Raises UsageError for a folder without bundles, DataError as `bundles_of` does.
    """
    found = bundles_of(Path(source)) if source else []
    if source and not found and Path(source).is_dir():
        raise UsageError(
            f"no bundle lies below {source}: name a folder with bundles (*.zip), or a store by its URL or file"
        )
    return found


@contextmanager
def bundled_runs(bundles: Sequence[Path]) -> Iterator[list[BundledRun]]:
    """The runs of bundles, whose artifacts are there as long as the block runs.

    Of a run that lies in several, the copy with the most artifacts stands for it: a bundle may have been written without some. Of
    copies with as many it is the last one.
    """
    with ExitStack() as stack:
        once: dict[str, BundledRun] = {}
        for run in (run for bundle in _checked(bundles, stack) for run in bundle.checked_runs()):
            origin = run.tags.get(IMPORTED_RUN, run.run_id)
            if origin not in once or len(run.owner.artifacts) >= len(once[origin].owner.artifacts):
                once[origin] = run
        yield list(once.values())


UNPACKING = 2 / 3
"""The share of the time of reading a bundle that is packed as a whole which goes by until it is unpacked; then its files are hashed."""


class _Told:
    """Tells a bar how many of the bytes of one bundle, as it lies there, are done."""

    def __init__(self, size: int, advance: Callable[[int], None]) -> None:
        self.size, self.advance, self.done = size, advance, 0

    def __call__(self, share: float) -> None:
        """share: of the work that is done, from 0 to 1."""
        now = round(self.size * min(share, 1.0))
        self.advance(now - self.done)
        self.done = now


def _checked(paths: Sequence[Path], stack: ExitStack) -> list[Bundle]:
    """Bundles in the order of their paths, open as long as the stack is, all of whose files are what was exported. Unpacking and hashing
    take most of the time of reading bundles, and let other threads work: so several bundles are opened at once.

    Where one cannot be read, or Ctrl-C ends this, the others are given up in the middle.
    """
    given_up, one_at_a_time = Event(), Lock()
    sizes = [_size(path) for path in paths]
    title = "checking the bundle" if len(paths) == 1 else "checking bundles"
    with progress(title, sum(sizes), "bytes") as bar, ThreadPoolExecutor(os.cpu_count() or 1) as pool:

        def advance(amount: int) -> None:
            if given_up.is_set():
                raise CancelledError
            with one_at_a_time:
                bar(amount)

        def checked(path: Path, size: int) -> Bundle:
            told = _Told(size, advance)
            bundle = stack.enter_context(open_bundle(path, lambda share: told(share * UNPACKING)))
            before, hashed = told.done / max(size, 1), 0

            def tell(amount: int) -> None:
                nonlocal hashed
                hashed += amount
                told(before + (1 - before) * hashed / max(bundle.size, 1))

            bundle.check(tell)
            told(1.0)
            return bundle

        waiting = [pool.submit(checked, path, size) for path, size in zip(paths, sizes, strict=True)]
        try:
            for one in as_completed(
                waiting
            ):  # not in their order: what is wrong with one is said before a larger one is read
                one.result()
        except BaseException:
            given_up.set()
            raise
        return [one.result() for one in waiting]


def _size(path: Path) -> int:
    """Bytes of a bundle as it lies there, of a folder all its files'."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
