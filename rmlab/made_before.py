"""Was the output file already made by the same request? Then there is nothing to do; and a file of another request is not replaced unasked.

The metadata of a Parquet file say what made it: `command`, and `config_hash`, the hash of everything that can change it.
"""

from pathlib import Path

from rmlab.errors import UsageError
from rmlab.files import PARQUET

ONCE_UNSTATED = ("rmlab import", "rmlab trajectories split")
"""Commands whose earlier versions wrote sets without `config_hash`."""


def made_before(path: Path, config_hash: str) -> bool:
    """Whether a request with this hash has made what is at `path`; False where nothing is there.

    Raises UsageError where something else is there, which would be lost.
    """
    if not path.exists():
        return False
    if path.suffix.lower() not in PARQUET:
        kind = path.suffix.lstrip(".").upper() or "file of this format"
        raise UsageError(
            f"{path} is already there, and a {kind} cannot say what made it, so it cannot be checked: "
            "name another output, or replace it with --force"
        )
    stated = _stated(path)
    if stated.get("config_hash") == config_hash:
        return True
    if "config_hash" not in stated and stated.get("command") in ONCE_UNSTATED:
        raise UsageError(
            f"{path} was made by `{stated['command']}` of an earlier version, which did not note its request, so it cannot be checked: "
            "name another output, or replace it with --force"
        )
    made = (
        f"made by `{stated['command']}`"
        if "command" in stated
        else "which does not say what made it (Parquet files can)"
    )
    raise UsageError(
        f"{path} holds something else, {made} (rules, inputs or models may also have changed): name another output, or replace it "
        "with --force"
    )


def _stated(path: Path) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return {}
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in metadata.items()
        if name != b"ARROW:schema"
    }
