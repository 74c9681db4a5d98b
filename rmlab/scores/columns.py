"""The roles of columns in a foreign table: `score=final_probe,resolved=sub_class==success,task_id=iid`.

Each role is a column of the score table, or one from which a column is made: two log-probabilities or logits of YES and NO,
or all log-probabilities by token, make a score. A cell that holds a list (or the text of one) holds one value an attempt.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from rmlab.errors import UsageError
from rmlab.scores.answer_logprobs import NoAnswer, Tokens, score_of_logprobs, score_of_pair
from rmlab.scores.wanted import KEY, CsvCell, Wanted
from rmlab.wording import counted

COLUMNS = ("task_id", "trajectory_id", "policy", "source", "cluster", "score", "resolved", "n_tokens", "patch")
REQUIRED = ("task_id", "score", "resolved")
TASKS = ("instance_id", "docker_image", "docker_images")
"""The names under which others keep the task: read without being named, where there is no `task_id`."""
TESTS = ("regression", "reproduction")
"""What a selection by tests needs: the share of old tests that still pass, and how well the attempt does on generated ones."""
PUBLISHED_TESTS = {"regression": "regression_rates", "reproduction": "mean_predicted_rewards"}
"""The names under which R2E-Gym publishes them: read without being named, where both are there."""
PAIRS = {"yes_logprob": "no_logprob", "yes_logit": "no_logit"}
MADE = (*PAIRS, *PAIRS.values(), "logprobs")
ROLES = (*COLUMNS, *TESTS, *MADE)

HINT = f"A score table has {', '.join(REQUIRED)}; use --columns score=NAME,resolved=NAME,task_id=NAME for other names."
JOINED_HINT = "With --trajectories a table needs score and trajectory_id, or task_id; --columns score=NAME,task_id=NAME sets other names."
Fail = Callable[[str], NoReturn]


@dataclass(frozen=True)
class ColumnNames:
    """named: role to column. true_value: the value of `resolved` that means resolved; None = the column holds labels."""

    named: Mapping[str, str] = field(default_factory=dict)
    true_value: str | None = None

    def column(self, role: str) -> str:
        """The column of a role: its own name unless another is given."""
        return self.named.get(role, role)

    @property
    def made_from(self) -> tuple[str, ...]:
        """The roles that make the score; empty where it is a column."""
        return tuple(role for role in MADE if role in self.named)

    def wanted(self, joined: bool = False) -> Wanted:
        """What is read of a file, for its reader. joined: the trajectories say the rest, so an id and a score are enough."""
        roles = [
            role
            for role in REQUIRED
            if not (role == "score" and self.made_from) and not (role == "resolved" and joined)
        ]
        required = dict.fromkeys([*(self.column(role) for role in roles), *self.named.values()])
        instead = (*((self.column("trajectory_id"),) if joined else ()), *(() if "task_id" in self.named else TASKS))
        read = dict.fromkeys(
            [*(self.column(role) for role in COLUMNS), *self.named.values(), *PUBLISHED_TESTS.values(), KEY, *instead]
        )
        return Wanted(
            list(required),
            self.column("task_id"),
            list(read),
            JOINED_HINT if joined else HINT,
            instead=instead,
            named=tuple(self.named.values()),
        )


def column_names(texts: Sequence[str]) -> ColumnNames:
    """Reads `role=column,role=column` (several texts add up). `resolved=column==value` makes a label of a value.

    Raises UsageError for what is no role, a role named twice, or half a pair.
    """
    named: dict[str, str] = {}
    true_value = None
    for item in (item for text in texts for item in text.split(",")):
        role, separator, column = (part.strip() for part in item.partition("="))
        if role not in ROLES or not separator or not column:
            raise UsageError(f"--columns {item!r}: write ROLE=COLUMN with one of {', '.join(ROLES)}")
        if role in named:
            raise UsageError(f"--columns names {role} twice: {named[role]} and {column}")
        if role == "resolved" and "==" in column:
            column, _, true_value = column.partition("==")
        named[role] = column
    for yes, no in PAIRS.items():
        if (yes in named) != (no in named):
            raise UsageError(f"--columns: a score needs both {yes} and {no}; name both")
    sources = [source for source in ("score", *PAIRS, "logprobs") if source in named]
    if len(sources) > 1:
        raise UsageError(f"--columns: the score is defined by {' and by '.join(sources)}; name only one")
    return ColumnNames(named, true_value)


@dataclass
class Reader:
    """Turns cells of a foreign table into cells of a score table. Remembers what a reader of the numbers should know.

    joined: as in `ColumnNames.wanted`.
    """

    names: ColumnNames
    joined: bool = False
    tokens: Tokens = field(default_factory=Tokens)
    values: dict[str, int] = field(default_factory=dict)
    exploded: int = 0
    without_attempts: int = 0
    task_from: str = ""
    published_tests: bool = False

    @property
    def tests(self) -> tuple[str, ...]:
        """Which results of tests were read."""
        return TESTS if self.published_tests else tuple(role for role in TESTS if role in self.names.named)

    def attempts(self, place: str, cells: Mapping[str, Any], fail: Fail) -> Iterator[tuple[str, dict[str, Any]]]:
        """The attempts of one row with their places: one, or as many as its lists hold."""
        by_role = {
            role: cells[column]
            for role in ROLES
            if (column := self.names.column(role)) in cells and (role in COLUMNS or role in self.names.named)
        }
        if not self.names.named.keys() & set(TESTS) and all(column in cells for column in PUBLISHED_TESTS.values()):
            by_role |= {role: cells[column] for role, column in PUBLISHED_TESTS.items()}
            self.published_tests = True
        lists = {role: values for role, cell in by_role.items() if (values := _list(role, cell, fail)) is not None}
        many = bool({"score", "resolved", *self.names.made_from} & lists.keys())
        if "task_id" not in by_role and not (self.joined and "trajectory_id" in by_role):
            by_role["task_id"] = self._task(place, cells, many, fail)
        if not many:
            yield place, self._made(by_role, fail)
            return
        lengths = {role: len(values) for role, values in lists.items()}
        if len(set(lengths.values())) > 1:
            fail("its lists differ in length: " + ", ".join(f"{role} {n}" for role, n in lengths.items()))
        count = next(iter(lengths.values()))
        self.exploded += 1
        self.without_attempts += count == 0
        for i in range(count):
            yield (
                f"{place}, item {i + 1}",
                self._made(by_role | {role: values[i] for role, values in lists.items()}, fail),
            )

    def _task(self, place: str, cells: Mapping[str, Any], many: bool, fail: Fail) -> Any:
        """What stands for the task where no column of its name is there."""
        names = (KEY,) if "task_id" in self.names.named else (KEY, *TASKS)
        stand_in = next((name for name in names if name in cells), None)
        if stand_in is not None:
            self.task_from = "the keys of the records" if stand_in == KEY else f"the column {stand_in}"
            return cells[stand_in]
        if many and "task_id" not in self.names.named:
            self.task_from = "the rows, each of which holds the attempts at one"
            return place
        shown = ", ".join(name for name in cells if name.isprintable())[:200]
        fail(
            f"there is no {self.names.column('task_id')!r} (there are: {shown or 'none'}). {JOINED_HINT if self.joined else HINT}"
        )

    def _made(self, by_role: dict[str, Any], fail: Fail) -> dict[str, Any]:
        if self.names.true_value is not None:
            value = by_role.get("resolved")
            text = "" if value is None else str(value).strip()
            self.values[text] = self.values.get(text, 0) + 1
            by_role["resolved"] = None if not text else text == self.names.true_value
        if self.names.made_from:
            try:
                by_role["score"] = self._score(by_role, fail)
            except NoAnswer as error:
                fail(f"no score: {error}")
        return by_role

    def _score(self, by_role: dict[str, Any], fail: Fail) -> float | None:
        if "logprobs" in by_role:
            cell = _parsed(by_role["logprobs"], "logprobs", fail)
            return None if cell is None else score_of_logprobs(cell, self.tokens)
        yes, no = (number(by_role[role], role, fail) for role in self.names.made_from)
        if (yes is None) != (no is None):
            fail(f"{'YES' if yes is None else 'NO'} has no value, but a score needs both answers")
        if yes is None or no is None:
            return None
        if "yes_logprob" in by_role and max(yes, no) > 1e-6:
            fail(f"{max(yes, no)} is not a log-probability (they are at most 0); name logits as yes_logit and no_logit")
        return score_of_pair(yes, no)

    def notes(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        lines = self.tokens.notes()
        if self.task_from:
            lines.append(f"task_id: {self.task_from}")
        if self.exploded:
            empty = (
                f"; {counted(self.without_attempts, 'of them is', 'of them are')} empty"
                if self.without_attempts
                else ""
            )
            lines.append(f"{counted(self.exploded, 'row holds', 'rows hold')} lists, with one attempt per item{empty}")
        if self.published_tests:
            lines.append(f"results of tests: {', '.join(PUBLISHED_TESTS.values())}")
        if self.values:
            counts = ", ".join(
                f"{value or '(nothing)'} {count:,}"
                for value, count in sorted(self.values.items(), key=lambda p: -p[1])[:8]
            )
            lines.append(f"resolved: {self.names.column('resolved')} is {self.names.true_value} ({counts})")
        return lines

    def check(self, where: str) -> None:
        """Raises UsageError where the value that means resolved never occurs."""
        if self.values and self.names.true_value not in self.values:
            raise UsageError(
                f"{where}: {self.names.column('resolved')} is never {self.names.true_value!r} (its values: "
                f"{', '.join(map(repr, sorted(self.values)))[:200]})"
            )


def number(value: Any, name: str, fail: Fail) -> float | None:
    """A number or None where there is none; -inf may stand there. Text is taken from CSV cells only."""
    if value is None or (isinstance(value, CsvCell) and not value.strip()):
        return None
    try:
        parsed = float(value) if type(value) in (int, float) or isinstance(value, CsvCell) else None
    except (ValueError, OverflowError):
        parsed = None
    if parsed is None or parsed != parsed or parsed == float("inf"):
        fail(f"{name} {str(value)[:80]!r} is not a number")
    return parsed


def _list(role: str, cell: Any, fail: Fail) -> list[Any] | None:
    """The items of a cell that holds a list or the text of one; None for any other."""
    if role == "logprobs":
        return None
    if isinstance(cell, list):
        return cell
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return None
    if role in ("score", "resolved", "n_tokens", *TESTS, *MADE):
        parsed = _parsed(cell, role, fail)
        return parsed if isinstance(parsed, list) else None
    try:
        parsed = _literal(cell)
    except ValueError:
        return None  # a name may begin with a bracket
    return parsed if isinstance(parsed, list) else None


def _parsed(cell: Any, role: str, fail: Fail) -> Any:
    """The value that a cell's text says, or the cell where it is no text."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    try:
        return _literal(cell)
    except ValueError:
        fail(f"{role} {cell[:80]!r} is not readable as a list or as JSON")


def _literal(text: str) -> Any:
    """JSON, or what Python prints of numbers, texts and lists. Raises ValueError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"{text[:80]!r} is not a value") from error
