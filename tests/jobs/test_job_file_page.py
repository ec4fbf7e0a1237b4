"""The page about job files and the schema say what the types say."""

import json

from tests.jobs.job_file_page import PAGE, SCHEMA, meanings, page, schema
from tutti.jobs.schema import job_schema


def test_the_page_is_made_from_the_types():
    assert PAGE.read_text() == page(), "run python -m tests.jobs.job_file_page"


def test_the_schema_is_made_from_the_types():
    assert SCHEMA.read_text() == schema(), "run python -m tests.jobs.job_file_page"


def test_every_key_is_explained():
    plain = {"queue", "priority", "preemptible", "parkable", "interruptions_per_day"}
    assert [name for name, meaning in meanings().items() if not meaning and name not in plain] == []


def test_the_schema_refuses_unknown_keys():
    definition = job_schema()["$defs"]["Job"]
    assert definition["additionalProperties"] is False
    assert json.loads(schema())["title"] == "Tutti job file"
