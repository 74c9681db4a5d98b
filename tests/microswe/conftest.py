from collections.abc import Iterator

import pytest

from rmlab.microswe.build import trial
from rmlab.microswe.sandbox import Limits, Sandbox


@pytest.fixture(scope="module")
def short_calls() -> Iterator[None]:
    """Builds give a call a fifth of its time: many edits never end, and each would use up all of it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            trial, "Sandbox", lambda workers, **options: Sandbox(workers, Limits(call_seconds=0.2), **options)
        )
        yield
