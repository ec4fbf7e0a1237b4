"""The same engine over virtual time: traces, scenes, faults, protocols of published studies, reports."""
