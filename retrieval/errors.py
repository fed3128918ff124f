"""The two errors that cross every floor."""


class InputError(ValueError):
    """Something the user gave is wrong: a file, a key, a name, a checkpoint.

    The message is one line that names the culprit and the remedy. Commands print it and exit with
    status 2; it never comes with a traceback.
    """


class RetrievalError(RuntimeError):
    """A search engine failed (time-out, bad answer, dead server).

    It never becomes an observation, a zero reward or a silent drop: the episode is flagged, left
    out of the loss and counted.
    """
