"""jsonargparse's errors in our words."""

import difflib
import re
from collections.abc import Mapping, Set

_UNKNOWN_KEY = re.compile(
    r"unrecognized arguments: -*(?P<flag>[^\s=]+)"
    r"|Group '(?P<group>[^']+)' does not accept option '(?P<option>[^']+)'"
    r"|Option '(?P<key>[^']+)' is not accepted"
)
_WRONG_TYPE = re.compile(
    r'Parser key "(?P<key>[\w.]+)": (?:Expected an? (?P<one>.+?)\. Got value: '
    r"|Does not validate .*?Subtypes: \[(?P<many>[^]]*)\].*Given value: )(?P<value>.*)"
)


def explain(error: Exception, keys: Set[str], names: Mapping[str, str]) -> str:
    """One line: the key first, then the remedy.

    Args:
        error: What jsonargparse raised.
        keys: What can be given, dotted, sections included.
        names: Slot -> the plug-in that fills it.
    """
    message = " ".join(str(error).split())
    message = re.sub(r"<class '(\w+)'>", r"\1", message).replace("NoneType", "null")
    if wrong := _WRONG_TYPE.search(message):
        kinds = (wrong["one"] or wrong["many"]).replace(", ", " or ")
        return f"{wrong['key']} is {wrong['value']}; give a value of type {kinds}"
    unknown = _UNKNOWN_KEY.search(message)
    if unknown is None:
        return message
    key = unknown["flag"] or unknown["key"] or f"{unknown['group']}.{unknown['option']}"
    leaves = {leaf for leaf in keys if not any(k.startswith(f"{leaf}.") for k in keys)}
    section, _, option = key.partition(".")
    options = sorted(leaf[len(section) + 1 :] for leaf in leaves if leaf.startswith(f"{section}."))
    if options:
        # Without the section, which all of them share and so all of them are close in.
        close = [f"{section}.{match}" for match in difflib.get_close_matches(option, options, n=1)]
        place = f" of {section} {names[section]!r}" if section in names else ""
        valid = [f"{section}.{option}" for option in options]
    else:
        close = difflib.get_close_matches(key, leaves, n=1)
        place = " at the top level"
        valid = sorted({leaf.partition(".")[0] for leaf in leaves})
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{key}: unknown key.{hint} Valid keys{place}: {', '.join(valid)}"
