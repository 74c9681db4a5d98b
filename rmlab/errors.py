"""Errors that a user can fix: one clear line and an exit code, never a traceback."""


class RmlabError(Exception):
    """Something outside the program is wrong (data, store, machine); the message says what to do. Exit code 1."""

    exit_code = 1


class UsageError(RmlabError):
    """The command was called wrongly (unknown name, value out of range). Exit code 2."""

    exit_code = 2


class DataError(RmlabError):
    """A file or table does not hold what it has to hold; the message names file, place and value."""


class StoreError(RmlabError):
    """The tracking store cannot be opened, read or written."""


class StoreOutOfReach(StoreError):
    """The tracking store stayed busy, or did not answer, for as long as was waited: it may answer again later."""


class MissingModel(DataError):
    """The pretrained model that a configuration names is not here."""


class AmbiguousName(DataError):
    """Several runs have the name that was given."""


class MissingArtifact(StoreError, DataError):
    """A run, of a store or of a bundle, has no artifact of that name: known from one that is there and cannot be read."""
