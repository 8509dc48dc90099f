"""Which pods belong together, the scheduler's memory of each gang, and which gang is next.

`gang_index` (which pod is in which gang), `members` (the members by state, and the gang's run),
`phase` (the phases of a gang), `holds` (room held for members to come), `waiting_line` (the order
in which gangs are tried, and the events that wake a gang), `plan_annotation`.
"""
