"""The `arena` and `muster` commands.

`main` finds the verb and turns errors into exit codes; `verb_groups` makes click groups of its
table of verbs. A verb is a module of `verbs`, of the same name unless several verbs share it, and
imported only when it is used. It parses flags, calls `muster.client` and prints through `show`.
Several verbs share:

    options            options and arguments, and the `target` (cluster and namespace) of a verb
    arena_parser       arena's spellings of flags
    training_command   the words of `submit` that are the training command
    each_name          several names in one command: each of them is tried
    daemon             `operator` and `scheduler`

This is the composition root: it may import every other package, and nothing imports it.
"""
