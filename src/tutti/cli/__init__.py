"""The command `tutti`: one file per command, loaded when it is called."""
