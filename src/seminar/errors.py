"""The one exception tree. Every message says where, what was met, what is allowed and what to do."""


class SeminarError(Exception):
    """Base of every error this library raises on purpose; the command line prints it as one line and
    exits 2."""


class ConfigError(SeminarError):
    """A recipe, a flag or a combination of them that cannot work."""


class DataError(SeminarError):
    """A data set, a row or a file that cannot be used."""


class ModelError(SeminarError):
    """A base model or an adapter that cannot be loaded or does not fit."""


class RunError(SeminarError):
    """A run folder that cannot be written, resumed or read."""


class DivergenceError(SeminarError):
    """Training that must stop: a non-finite loss, or engine and trainer that disagree."""
