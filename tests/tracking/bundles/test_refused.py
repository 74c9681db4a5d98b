"""What is damaged, hostile or no bundle is refused before anything is written."""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmlab.errors import DataError, RmlabError
from rmlab.tracking.bundles import importing
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.opening import is_bundle, open_bundle
from rmlab.tracking.bundles.several import bundled_runs
from rmlab.tracking.query import get_run
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store


def rewritten(bundle: Path, change: Callable[[str, bytes], Iterator[tuple[zipfile.ZipInfo | str, bytes]]]) -> Path:
    """A bundle whose members went through `change`."""
    target = bundle.with_name("changed.zip")
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            for new, data in change(name, source.read(name)):
                out.writestr(new, data)
    return target


def test_a_changed_file_is_found_before_anything_is_written(other: Store, bundle: Path) -> None:
    def change(name: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield name, data.replace(b"0.8", b"0.9") if name.endswith("report.json") else data

    with pytest.raises(DataError, match=r"report\.json is not the file that was exported"):
        import_bundle(rewritten(bundle, change), other, show=False)
    assert run_infos(other) == []


def test_of_several_bundles_each_is_checked_and_a_run_counts_once(bundle: Path, tmp_path: Path) -> None:
    def change(name: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield name, data.replace(b"0.8", b"0.9") if name.endswith("report.json") else data

    copies = [Path(shutil.copy(bundle, tmp_path / f"{i}.zip")) for i in range(4)]
    with bundled_runs([bundle]) as alone, bundled_runs([bundle, *copies]) as found:
        assert [run.run_id for run in found] == [run.run_id for run in alone]
        assert {run.bundle.path for run in found} == {copies[-1]}
    changed = rewritten(bundle, change)
    said = r"changed\.zip: .*report\.json is not the file that was exported"
    with pytest.raises(DataError, match=said), bundled_runs([*copies, changed]):
        pass


def test_two_metrics_on_a_line_are_no_metrics(bundle: Path) -> None:
    """As long, and with the right hash in the manifest."""
    with zipfile.ZipFile(bundle) as archive:
        whole = max((archive.read(name) for name in archive.namelist() if name.endswith("metrics.jsonl")), key=len)
    joined = whole.replace(b"]\n[", b"],[", 1)
    digests = [hashlib.sha256(data).hexdigest().encode() for data in (whole, joined)]

    def change(member: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield member, joined if data == whole else data.replace(*digests) if member == "manifest.json" else data

    with open_bundle(rewritten(bundle, change)) as opened:
        opened.verify(show=False)
        with pytest.raises(DataError, match=r"metrics\.jsonl lacks required content: .* lines hold .* metrics"):
            opened.runs()


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_bundle_that_was_cut_short_is_refused(other: Store, bundle: Path, kept: float) -> None:
    data = bundle.read_bytes()
    bundle.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(DataError, match="truncated in transfer"):
        import_bundle(bundle, other, show=False)


def a_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/etc/evil",
        "runs/../../evil",
        "runs\\..\\evil",
        "runs//evil",
        "C:/../evil",
        "a\nb",
        "x" * 300,
        "extra",
        "runs/link",
    ],
)
def test_names_that_lead_out_links_and_strangers_are_refused(other: Store, bundle: Path, name: str) -> None:
    def change(old: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield old, data
        if old == "manifest.json":
            yield a_link(name) if "link" in name else name, b"evil"

    with pytest.raises(
        DataError,
        match=r"is not a valid path|is not a regular file|has a name that is too long|bytes in the archive, but no in",
    ):
        import_bundle(rewritten(bundle, change), other, show=False)
    assert run_infos(other) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["runs"][0]["artifacts"][0].update(path="../../../evil"), "bytes in the archive"),
        (lambda m: m["runs"][0].update(run_id="../evil"), "is not a run id"),
        (lambda m: m["runs"][0].update(experiment="a/b"), "cannot name an experiment"),
        (lambda m: m["runs"][0]["record"].update(sha256="x"), "has no SHA-256"),
        (lambda m: m["runs"].append(m["runs"][0]), "a run is listed twice"),
        (lambda m: m["runs"].pop(), "bytes in the archive, but no in the manifest"),
        (lambda m: m.update(version=2), "version 2; this rmlab reads rmlab-bundle 1"),
        (lambda m: m.pop("runs"), "lacks required content: KeyError"),
    ],
)
def test_a_manifest_that_says_what_is_not_so_is_refused(
    other: Store, bundle: Path, change: Callable[[dict[str, object]], object], words: str
) -> None:
    def through(name: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        if name == "manifest.json":
            manifest = json.loads(data)
            change(manifest)
            data = json.dumps(manifest).encode()
        yield name, data

    with pytest.raises(DataError, match=words) as caught:
        import_bundle(rewritten(bundle, through), other, show=False)
    assert "\n" not in str(caught.value)
    assert run_infos(other) == []


def test_other_files_are_no_bundles(other: Store, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("hello", "hello")
    for name, words in (("text", "is not a bundle"), ("zip", "has no manifest.json"), ("nothing", "no such file")):
        with pytest.raises(DataError, match=words):
            import_bundle(tmp_path / name, other, show=False)
    assert not is_bundle(tmp_path / "text")
    assert not is_bundle(Path(other.uri.removeprefix("sqlite:///")))


def test_a_disk_without_room_is_said_before_anything_is_written(
    other: Store, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        importing.shutil, "disk_usage", lambda _: os.terminal_size((0, 0)) and type("Usage", (), {"free": 10})
    )
    with pytest.raises(RmlabError, match=r"unpacks to .* has only 0\.0 GB free"):
        import_bundle(bundle, other, show=False)
    assert run_infos(other) == []


def test_an_artifact_that_is_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    with RunLogger.start(store, "linked", "linked", kind="verifier") as run:
        run.text("plain", "plain")
    folder = get_run(store, run.run_id).folder()
    assert folder is not None
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(RmlabError, match="is a link"):
        export_runs(store, tmp_path / "linked.zip", show=False)
    assert not (tmp_path / "linked.zip").exists()
