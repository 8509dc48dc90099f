"""The pages in docs/: their commands run, their links resolve, their lists match the code."""
