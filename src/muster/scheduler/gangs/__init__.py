"""Who belongs together, what is remembered of a gang, and whose turn it is.

`gang_index` (which pod is in which gang), `members` (what each member is doing, and the gang's
run), `phase` (where a gang stands), `holds` (room held for members to come), `waiting_line` (the
order in which gangs are tried, and what wakes a gang that waits), `plan_annotation`.
"""
