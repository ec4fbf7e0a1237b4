"""One sentence per reason, as in docs/reference/reasons.md; a test holds the two together."""

REASONS = {
    "Invalid": "The job contradicts itself.",
    "NeverFits": "This cluster could not hold it even when empty.",
    "UnsupportedConstraint": "It asks for something Tutti does not know how to honour.",
    "Held": "Someone put it on hold.",
    "QueueClosed": "Its queue lets nothing start.",
    "DependencyWait": "It is to start after something that has not happened.",
    "WaitingForMembers": "Not all of its members have been created yet.",
    "QuotaReached": "Its queue or its owner is at the limit.",
    "BackingOff": "A start failed; the next try comes after a pause.",
    "BehindOthers": "Others in line come first, and passing them would break the order.",
    "ReservedAhead": "It would fit, but it would delay a promise to someone else.",
    "NoDomain": "There is room, but not enough of it close together.",
    "UsedByOthers": "Somebody else uses what it needs.",
    "NodesLost": "It would fit if nodes that are down, draining or shut out were back.",
    "NoCapacity": "Its members do not fit on what is free.",
    "WaitingForEviction": "Room is being made for it; those who hold it are leaving.",
    "Parked": "It gave up its place for a while and will get one back.",
    "BudgetSpent": "The search was cut short before a place was found.",
    "Starting": "It has a place and is coming up.",
}
