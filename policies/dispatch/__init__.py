"""Which sequences go to which replica in a step."""
