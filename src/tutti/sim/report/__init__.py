"""A report to decide by: one page that works from a file, pictures for slides, and the table of jobs."""
