"""What a namespace may take: amounts, what an object counts for, and the books of it."""
