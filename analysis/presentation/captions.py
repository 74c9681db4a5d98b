"""The caption of a figure for a paper: the same words in Markdown and in LaTeX, with seeds, n, and what an interval is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rmlab.files import write_text

SPECIAL: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ρ": r"$\rho$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "→": r"$\to$",
}


@dataclass(frozen=True)
class Caption:
    """says: what the figure shows, a sentence. shown: what panels, marks and intervals are. counts: n, seeds, what was left out."""

    says: str
    shown: str
    counts: str


def write_captions(folder: Path, name: str, caption: Caption) -> list[Path]:
    """NAME.caption.md and NAME.caption.tex."""
    paths = [folder / f"{name}.caption.md", folder / f"{name}.caption.tex"]
    write_text(paths[0], f"**{caption.says}** {caption.shown} {caption.counts}\n")
    bold, *rest = (latex(text) for text in (caption.says, caption.shown, caption.counts))
    write_text(paths[1], f"\\caption{{\\textbf{{{bold}}} {' '.join(rest)}}}\n\\label{{fig:{name}}}\n")
    return paths


def latex(text: str) -> str:
    """A text with the signs that LaTeX reads as commands, or lacks, as it writes them."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)
