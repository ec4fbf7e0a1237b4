"""One file for each way a job is launched: from its words to fields of the draft."""
