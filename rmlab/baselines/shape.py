"""How much does the shape of an attempt reveal without its text?

The shape is which kinds of action follow one another and how many there are: no text, no values, no code. A logistic
regression on it, fitted on validation, is the baseline that says whether labels leak through style; a verifier that
does no better has learned nothing about code.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rmlab.microswe.actions import Edit, Run, try_parse
from rmlab.trajectories.record import Trajectory


def kind(message: str) -> str:
    """One letter for an assistant's message: Edit, Run, Submit, or ? for anything that is no action of micro-SWE."""
    action = try_parse(message)
    if action is None:
        return "?"
    return "E" if isinstance(action, Edit) else "R" if isinstance(action, Run) else "S"


def pattern(trajectory: Trajectory) -> str:
    """The kinds of all actions in order, e.g. ERERS."""
    return "".join(kind(m.content) for m in trajectory.messages if m.role == "assistant")


def features(trajectory: Trajectory) -> dict[str, float]:
    """What the regression sees: the whole pattern, the kind at each turn, how often each kind occurs, the number of turns."""
    kinds = pattern(trajectory)
    value_of = {
        f"pattern={kinds}": 1.0,
        f"turns={min(len(kinds), 50)}": 1.0,
        "turns": len(kinds) / 10,
        f"last={kinds[-1:]}": 1.0,
    }
    value_of |= {f"turn{i}={letter}": 1.0 for i, letter in enumerate(kinds[:12])}
    value_of |= {f"count={letter}": n / 10 for letter, n in Counter(kinds).items()}
    return value_of


def characters(trajectories: Sequence[Trajectory]) -> NDArray[np.float64]:
    """Characters of all messages of each attempt."""
    return np.array([sum(len(m.content) for m in t.messages) for t in trajectories], dtype=np.float64)


def fit_shape(fitted_on: Sequence[Trajectory], scored: Sequence[Trajectory]) -> NDArray[np.float64]:
    """P(resolved) of the scored attempts by shape alone. fitted_on: labelled attempts with both labels."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = DictVectorizer()
    x_fit = vectorizer.fit_transform([features(t) for t in fitted_on])
    model = LogisticRegression(max_iter=5000).fit(x_fit, [bool(t.resolved) for t in fitted_on])
    return np.asarray(model.predict_proba(vectorizer.transform([features(t) for t in scored]))[:, 1], dtype=np.float64)
