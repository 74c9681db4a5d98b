"""GPUs by name: memory, arithmetic and bandwidth as their makers state them."""

import re
from dataclasses import dataclass

from rmlab.errors import UsageError
from rmlab.wording import near


@dataclass(frozen=True)
class Card:
    """gib: memory that torch sees. flops: dense bfloat16 operations a second with float32 sums (data sheets that state twice as much count
    sparse ones). bandwidth: of its memory, bytes a second. source: the maker's data sheet."""

    name: str
    gib: float
    flops: float
    bandwidth: float
    source: str


CARDS = {
    "a100": Card("A100 SXM 80 GB", 79.2, 312e12, 2.039e12, "NVIDIA A100 80GB data sheet, 2021"),
    "a100-40": Card("A100 SXM 40 GB", 39.4, 312e12, 1.555e12, "NVIDIA A100 data sheet, 2020"),
    "h100": Card("H100 SXM 80 GB", 79.2, 989e12, 3.35e12, "NVIDIA H100 data sheet, 2023"),
    "h200": Card("H200 SXM 141 GB", 139.8, 989e12, 4.8e12, "NVIDIA H200 data sheet, 2023"),
    "b200": Card("B200 180 GB", 178.0, 2250e12, 7.7e12, "NVIDIA HGX B200 data sheet, 2024"),
    "l40s": Card("L40S 48 GB", 44.4, 362e12, 0.864e12, "NVIDIA L40S data sheet, 2023"),
    "l4": Card("L4 24 GB", 22.0, 121e12, 0.3e12, "NVIDIA L4 data sheet, 2023"),
    "rtx4090": Card("RTX 4090 24 GB", 23.5, 165e12, 1.008e12, "NVIDIA Ada architecture white paper, 2022"),
}


def find_card(name: str) -> Card:
    """The card of that name. Raises UsageError where the table has none."""
    if (card := CARDS.get(name.lower())) is None:
        raise UsageError(
            f"--card {name}: there is no such card{near(name.lower(), CARDS)}; there are: {', '.join(CARDS)}"
        )
    return card


def card_called(device: str) -> Card | None:
    """The card that a driver calls so (`torch.cuda.get_device_name`); None where the table has none."""
    words = device.lower().replace("rtx ", "rtx")
    fitting = [key for key in CARDS if all(re.search(rf"(?<![a-z]){part}(?!\d)", words) for part in key.split("-"))]
    return CARDS[max(fitting, key=len)] if fitting else None
