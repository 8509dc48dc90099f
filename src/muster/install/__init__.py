"""Installing Muster on a cluster and removing it.

Reading order: `existing_objects` (what the cluster has already), `installed_values` (pure: with
which values Muster is installed, and what changes), `plan` (pure: the objects to apply, or why
not), `missing_rights` (what the user may not apply), `installation` (apply, then wait until ready),
`removal` (uninstall, and what a changed installation leaves out).
"""
