"""A gang in somebody else's words, and what those words cannot say."""
