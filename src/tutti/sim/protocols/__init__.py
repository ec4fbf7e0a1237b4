"""The rules of published studies, quirks included, so that their tables can be checked and their logs compared."""
