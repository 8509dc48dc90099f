"""What components and clients read of each other: gangs, job fields, the line, rights, names."""
