"""Every key that a dialect has, with what becomes of it: the documented table, and what is refused by it."""
