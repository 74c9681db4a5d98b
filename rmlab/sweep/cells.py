"""The two hashes that identify a cell.

`config_hash` covers everything that can change a result and nothing else, so it does not depend on caches, the
process or the folder. `control_hash` leaves out the keys of the declared factors and the seed: cells that share it
may be drawn as one line.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from rmlab.fingerprint import Identity, fingerprint, hashed_plain, hashed_values
from rmlab.sweep.factors import Factor
from rmlab.training.config import Match, TrainingConfig, canonical

if TYPE_CHECKING:
    from omegaconf import DictConfig

SEED = "seed"


def identify(
    config: "DictConfig | Mapping[str, Any]",
    *,
    pool: str,
    tokenizer: str,
    semantics: Mapping[str, int],
    factors: Iterable[Factor] = (),
) -> Identity:
    """Both hashes of a run.

    config: the whole configuration with a key `seed`, typed by its program's class, which says what of it is hashed; or the plain
    values that are (`rmlab.fingerprint.hashed_values`). pool: fingerprint of the pool, which stands for where it lies (never of
    the chosen set, which follows from pool, configuration and seed). tokenizer: of what defines the tokenizer. semantics:
    hand-bumped version of each stage (render, train, score, ...). factors: the declared ones.
    """
    plain = _plain(config)
    inputs = {"pool": pool, "tokenizer": tokenizer, "semantics": dict(semantics)}
    parts = {"config": _canonical(plain), **inputs}
    control: dict[str, Any] = {"config": plain, **inputs}
    _remove(plain, SEED)
    for factor in factors:
        for key in factor.owns:
            _remove(plain, key)
        if factor.owns_pool:
            control.pop("pool", None)
        if factor.owns_tokenizer:
            control.pop("tokenizer", None)
    return Identity(fingerprint(parts), fingerprint(control), control, parts)


def written_config(plain: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """What is hashed of a configuration that a run wrote down (`config.yaml`), to be compared with `parts["config"]`. schema: its class."""
    return _canonical(hashed_plain(plain, schema))


def without_keys(identity: Identity, keys: Iterable[str]) -> str:
    """A hash of everything that `identity` hashes but these keys of its configuration: equal where only they differ."""
    parts: dict[str, Any] = {str(key): _copy(inner) for key, inner in identity.parts.items()}
    for key in keys:
        _remove(parts, f"config.{key}")
    return fingerprint(parts)


def tokenizer_identity(tokenizer: "DictConfig | Mapping[str, Any]", supervised: str, semantics: int) -> str:
    """What defines a tokenizer of our own: its configuration, the part it is trained on, the trainer's version.

    supervised: fingerprint of the pool's supervised part. No tokenizer is trained for it, so it is the same before and after.
    """
    return fingerprint({"tokenizer": _plain(tokenizer), "supervised": supervised, "semantics": semantics})


def _canonical(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with `training` in its canonical form (`rmlab.training.config.canonical`), by which it is trained as well."""
    plain: dict[str, Any] = _copy(config)
    training, data = plain.get("training"), plain.get("data")
    if not isinstance(training, dict) or not isinstance(data, dict) or "reference_scale" not in training:
        return plain
    given = TrainingConfig(
        epochs=training.get("epochs", 1), match=Match(training["match"]), reference_scale=training["reference_scale"]
    )
    one = canonical(given, data["scale"])
    training |= {"match": one.match.value, "reference_scale": one.reference_scale or None}
    return plain


def _plain(config: "DictConfig | Mapping[str, Any]") -> dict[str, Any]:
    """What of a configuration is hashed, as a copy of its own."""
    from omegaconf import OmegaConf

    return hashed_values(cast("DictConfig", config)) if OmegaConf.is_config(config) else _copy(config)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _remove(tree: dict[str, Any], key: str) -> None:
    """Takes a dotted key out of a tree; one that is not there is no matter."""
    *path, last = key.split(".")
    for name in path:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.pop(last, None)
