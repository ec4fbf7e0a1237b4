"""One machine: a daemon, one keeper per gang, devices, the journal. Empty on purpose: keepers import below it."""
