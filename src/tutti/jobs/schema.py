"""The JSON Schema of a job file, made from the types."""

from typing import Any

import msgspec

from .job import Job

IDENTIFIER = "https://tutti.dev/schemas/job-v1.json"


def job_schema() -> dict[str, Any]:
    """The schema that editors can check a job file with."""
    schema = msgspec.json.schema(Job)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": IDENTIFIER, "title": "Tutti job file"}
    return head | schema
