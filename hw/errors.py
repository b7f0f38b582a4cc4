"""The one exception that means "what the user gave us is wrong"."""


class InputError(ValueError):
    """Bad configuration, trace, record or argument.

    The message is one line that names the place, the value found and what would be right. The
    command line prints it as it is and exits with status 2; library users may catch it.
    """
