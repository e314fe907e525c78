"""What no dispatch can beat, and how that is known."""
