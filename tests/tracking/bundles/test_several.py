"""Reading bundles tells how far it is within each of them, so that a large one among small ones does not stand still."""

import errno
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from rmlab.errors import DataError, RmlabError
from rmlab.paths import REPOSITORY
from rmlab.tracking.bundles import several
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.bundles.several import bundled_runs

PACKED = REPOSITORY / "experiments" / "studies" / "label_ratio" / "runs.zip"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, list[int]]]:
    """Of each bar its total and how much it was told at a time."""
    bars: list[tuple[float, list[int]]] = []

    @contextmanager
    def bar(title: str, total: float, unit: str) -> Iterator[Callable[[int], None]]:
        assert unit == "bytes"
        bars.append((total, []))
        yield bars[-1][1].append

    monkeypatch.setattr(several, "progress", bar)
    return bars


def test_the_bar_moves_within_a_bundle_and_ends_at_all_of_their_bytes(
    bundle: Path, told: list[tuple[float, list[int]]]
) -> None:
    with bundled_runs([bundle, PACKED]) as found:
        assert len(found) > 4
    [(total, steps)] = told
    assert total == sum(steps) == bundle.stat().st_size + PACKED.stat().st_size
    assert min(steps) >= 0
    assert max(steps) < 0.5 * total, "unpacking is told piece by piece"


def test_one_bundle_alone_and_an_extracted_one_are_counted_in_the_same_way(
    bundle: Path, told: list[tuple[float, list[int]]], tmp_path: Path
) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "extracted")
    for path in (bundle, tmp_path / "extracted"):
        with bundled_runs([path]):
            total, steps = told[-1]
            assert total == sum(steps) > 0
            assert len(steps) > 3


@pytest.mark.parametrize("damaged", [0, 1])
def test_what_stops_the_reading_of_one_gives_up_the_others_in_the_middle(
    damaged: int, bundle: Path, monkeypatch: pytest.MonkeyPatch, told: list[tuple[float, list[int]]]
) -> None:
    """As Ctrl-C does, which otherwise waits until all are unpacked; whichever it is, in the order of their names."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begun = Event()
    paths = [bundle, PACKED]

    @contextmanager
    def opened(path: Path, unpacked: Callable[[float], None]) -> Iterator[object]:
        until = time.monotonic() + 30
        while path != paths[damaged]:  # as long as nobody gives it up
            assert time.monotonic() < until, "it was not given up"
            begun.set()
            unpacked(0.1)
        begun.wait()
        raise DataError("damaged")
        yield

    monkeypatch.setattr(several, "open_bundle", opened)
    with pytest.raises(DataError, match="damaged"), bundled_runs(paths):
        pass


def test_a_full_disk_is_no_fault_of_the_bundle() -> None:
    def full(share: float) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        pytest.raises(
            RmlabError, match=r"No space left on device\. Free some space where temporary files and runs lie"
        ),
        open_bundle(PACKED, full),
    ):
        pass


def test_a_reader_that_raises_while_a_bundle_is_unpacked_ends_that(tmp_path: Path) -> None:
    def told(share: float) -> None:
        raise KeyError(share)

    with pytest.raises(KeyError), open_bundle(PACKED, told):
        pass
