"""Generation engines, one file each; the folder is the registry.

`build(config, policy)` makes an `agents.engine.Engine`, which can train. `connect(config,
max_tokens)` makes an `agents.chat.ChatModel`: text only, for methods that prompt.
"""

ENTRY_POINTS = ("build", "connect")
