"""How results look in a terminal: tables, colour, progress, units."""
