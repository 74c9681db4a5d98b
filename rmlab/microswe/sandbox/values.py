"""When do two runs of a function give the same output? Outputs as text that cannot lie, their comparison, their look.

`encode` turns a value into JSON text by its exact builtin type and runs no method of the value, so an object whose
`__eq__` says yes to everything is refused rather than believed. Comparison is between texts, away from the program.

    None, bool, str, list, int, finite float     themselves in JSON (1 and 1.0 differ)
    everything else                              {"tag": payload}, e.g. {"tuple": [1, 2]}, {"dict": [[key, value]]}
    what a call raised                           {"raised": "TypeError"} (never made from a returned value)

Standard library only: the sandbox's bare processes import it.
"""

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

DRAWN = 100  # elements drawn from an iterator before it counts as endless
DEPTH = 40
NODES = 20_000
CHARS = 20_000
PLAIN_BITS = (
    256  # of an integer that stands in JSON as a number: every interpreter reads it, whatever its limit of digits
)

_SEQUENCES: dict[type, str] = {
    tuple: "tuple",
    deque: "deque",
    type({}.values()): "dict_values",
    type({}.items()): "dict_items",
}
_UNORDERED: dict[type, str] = {set: "set", frozenset: "frozenset", type({}.keys()): "dict_keys"}
_MAPPINGS: dict[type, str] = {dict: "dict", Counter: "Counter", defaultdict: "defaultdict", OrderedDict: "OrderedDict"}
_BYTES: dict[type, str] = {bytes: "bytes", bytearray: "bytearray"}
_CONSTANTS = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_LISTS = {*_SEQUENCES.values(), *_UNORDERED.values(), "iterator", "endless"}


class Unencodable(ValueError):
    """The value is of a type that cannot be compared safely, or too deep, too large or too long."""


class _Encoder:
    def __init__(self, chars: int) -> None:
        self.nodes = NODES
        self.chars = self.limit = chars

    def spend(self, nodes: int, chars: int) -> None:
        self.nodes -= nodes
        self.chars -= chars
        if self.nodes < 0 or self.chars < 0:
            raise Unencodable(f"larger than {NODES} elements or {self.limit} characters")

    def tree(self, value: Any, depth: int = 0) -> Any:
        """The value as what `json.dumps` can write. Only exact types are looked at: a subclass is user code."""
        if depth > DEPTH:
            raise Unencodable(f"nested more than {DEPTH} deep")
        self.spend(1, 1)
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            self.spend(0, value.bit_length() // 4)
            return value if value.bit_length() <= PLAIN_BITS else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is str:
            self.spend(0, len(value))
            return value
        if kind is list:
            return [self.tree(item, depth + 1) for item in value]
        return self.tagged(value, kind, depth)

    def tagged(self, value: Any, kind: type, depth: int) -> Any:
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: [self.tree(item, depth + 1) for item in value]}
        if kind in _UNORDERED:
            return {_UNORDERED[kind]: sorted((self.tree(item, depth + 1) for item in value), key=_text)}
        if kind in _MAPPINGS:
            pairs = [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in dict.items(value)]
            return {_MAPPINGS[kind]: pairs}
        if kind in _BYTES:
            self.spend(0, 2 * len(value))
            return {_BYTES[kind]: value.hex()}
        if kind is complex:
            return {"complex": [self.tree(value.real, depth + 1), self.tree(value.imag, depth + 1)]}
        if kind is range:
            return {"range": [self.tree(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        if kind is Fraction:
            return {"Fraction": [self.tree(value.numerator, depth + 1), self.tree(value.denominator, depth + 1)]}
        if kind is Decimal:
            return {"Decimal": str(value).replace("e", "E")}  # a program's decimal context may write 1e+9
        for name, constant in _CONSTANTS.items():
            if value is constant:
                return {"constant": name}
        if hasattr(kind, "__next__"):
            return self.drawn(value, depth)
        raise Unencodable(f"a value of type {kind.__name__}")

    def drawn(self, iterator: Any, depth: int) -> Any:
        """What an iterator or generator yields, up to DRAWN elements; what it raises, it raises here."""
        items: list[Any] = []
        for item in iterator:
            if len(items) == DRAWN:
                return {"endless": items}
            items.append(self.tree(item, depth + 1))
        return {"iterator": items}


def _text(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False)


def encode(value: Any, chars: int = CHARS) -> str:
    """The value as one line of ASCII JSON, at most `chars` long. Iterators are drawn (at most DRAWN elements).

    Raises Unencodable for other types, subclasses among them, and for what is too deep, too large or too long.
    """
    text = _text(_Encoder(chars).tree(value))
    if len(text) > chars:
        raise Unencodable(f"longer than {chars} characters")
    return text


def raised(name: str) -> str:
    """The encoded output of a call that raised an exception of this class name."""
    return _text({"raised": name})


def _parse(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not in the encoding")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def is_value(text: str) -> bool:
    """Whether the text is what `encode` writes for some value (not an exception): the check on what comes out of a sandbox.

    Whatever passes can be compared and shown without an error; nothing that a program can write makes this raise.
    """
    try:
        return _valid(_parse(text), 0)
    except ValueError:
        return False


def _valid(tree: Any, depth: int) -> bool:
    if depth > DEPTH:
        return False
    if isinstance(tree, list):
        return all(_valid(item, depth + 1) for item in tree)
    if isinstance(tree, float):
        return math.isfinite(tree)  # JSON's 1e999 is read as infinity
    if isinstance(tree, int):
        return tree.bit_length() <= PLAIN_BITS
    if not isinstance(tree, dict):
        return True
    if len(tree) != 1:
        return False
    ((tag, payload),) = tree.items()
    if tag in _LISTS:
        return isinstance(payload, list) and all(_valid(item, depth + 1) for item in payload)
    if tag in _MAPPINGS.values():
        return isinstance(payload, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(_valid(part, depth + 1) for part in pair)
            for pair in payload
        )
    try:
        value = _scalar(tag, payload)
        return _text(_Encoder(CHARS).tree(value)) == _text(tree)  # one text for each value
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return False


def _scalar(tag: str, payload: Any) -> Any:
    """The Python value of a tag without elements. Raises ValueError, TypeError, ... where the payload is not its form."""
    if tag == "int":
        return int(payload, 16)
    if tag == "float":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[payload]
    if tag in _BYTES.values():
        content = bytes.fromhex(payload)
        return content if tag == "bytes" else bytearray(content)
    if tag == "complex":
        real, imaginary = (
            _scalar("float", part["float"]) if isinstance(part, dict) else float(part) for part in payload
        )
        return complex(real, imaginary)
    if tag == "range":
        return range(*(_integer(part) for part in payload))
    if tag == "Fraction":
        return Fraction(*(_integer(part) for part in payload))
    if tag == "Decimal":
        return Decimal(payload)
    if tag == "constant":
        return _CONSTANTS[payload]
    raise ValueError(f"unknown tag {tag!r}")


def _integer(tree: Any) -> int:
    value = _scalar("int", tree["int"]) if isinstance(tree, dict) else tree
    if type(value) is not int:
        raise ValueError(f"{tree!r} is not an integer")
    return value


def same(a: str, b: str) -> bool:
    """Whether two encoded outputs agree in type and value; floats within 1e-6 relative or 1e-9 absolute, at any depth.

    nan agrees with nan; sets and dictionaries in any order. Raises ValueError where a text is not JSON.
    """
    return a == b or _same(_parse(a), _parse(b))


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if not isinstance(a, dict):
        return bool(a == b)
    if a.keys() != b.keys() or len(a) != 1:
        return False
    ((tag, x),) = a.items()
    y = b[tag]
    if tag in _UNORDERED.values() or (tag in _MAPPINGS.values() and tag != "OrderedDict"):
        return _same_in_any_order(x, y)
    if tag == "Decimal":
        p, q = Decimal(x), Decimal(y)
        return bool(x == y if p.is_nan() or q.is_nan() else p == q)
    if tag == "range":  # equal where they hold the same numbers: range(0, 0) and range(0, -1)
        return range(*map(_integer, x)) == range(*map(_integer, y))
    return _same(x, y)


def _same_in_any_order(a: list[Any], b: list[Any]) -> bool:
    """Pairs equal texts first, then (floats) each that is left with the first that agrees."""
    if len(a) != len(b):
        return False
    count = Counter(map(_text, b))
    left: list[Any] = []
    for item in a:
        text = _text(item)
        if count[text]:
            count[text] -= 1
        else:
            left.append(item)
    rest = [json.loads(text) for text in count.elements()]
    for item in left:
        match = next((i for i, other in enumerate(rest) if _same(item, other)), None)
        if match is None:
            return False
        del rest[match]
    return True


def show(encoded: str, limit: int = 120) -> str:
    """What `run` prints for an encoded output: `7`, `{'a': 1}`, `raised TypeError`; at most `limit` characters."""
    text = _show(_parse(encoded))
    return text if len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def _show(tree: Any) -> str:
    if isinstance(tree, list):
        return f"[{', '.join(map(_show, tree))}]"
    if not isinstance(tree, dict):
        return repr(tree)
    ((tag, payload),) = tree.items()
    if tag == "raised":
        return f"raised {payload}"
    if tag in _MAPPINGS.values():
        text = "{" + ", ".join(f"{_show(k)}: {_show(v)}" for k, v in payload) + "}"
        return text if tag == "dict" else f"{tag}({text})"
    if tag not in _LISTS:
        return _show_scalar(tag, _scalar(tag, payload))
    items = ", ".join(map(_show, payload))
    if tag == "tuple":
        return f"({items}{',' * (len(payload) == 1)})"
    if tag == "set":
        return f"{{{items}}}" if payload else "set()"
    if tag == "frozenset":
        return f"frozenset({{{items}}})" if payload else "frozenset()"
    if tag == "endless":
        return f"iterator of [{items}, ...]"
    return f"iterator of [{items}]" if tag == "iterator" else f"{tag}([{items}])"


def _show_scalar(tag: str, value: Any) -> str:
    """As `repr`, which refuses integers beyond the interpreter's limit of digits, also inside of other values."""
    if tag == "int":
        return hex(value) if value.bit_length() > 4096 else _digits(value)
    if tag == "range":
        parts = [value.start, value.stop] + [value.step] * (value.step != 1)
        return f"range({', '.join(map(_digits, parts))})"
    if tag == "Fraction":
        return f"Fraction({_digits(value.numerator)}, {_digits(value.denominator)})"
    return str(value) if tag == "float" else repr(value)


def _digits(value: int) -> str:
    return str(Decimal(value))  # exact, and without a limit of digits
