"""The `arena` and `muster` commands.

`main` finds the verb and turns errors into exit codes; `verb_groups` is its table for click; a verb
is a module of `verbs` with the same name, imported only when it is used. A verb parses flags, calls
`muster.client` and prints through `show`. What several verbs share:

    options        options and arguments, and the `target` (cluster and namespace) that a verb gets
    arena_parser   arena's spellings of flags
    failures       several names in one command: all are tried
    manifests      `apply` and `create`
    daemon         `operator` and `scheduler`

This is the composition root: it may import every other package, and nothing imports it.
"""
