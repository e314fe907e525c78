"""What-if questions about capacity: each a function from a composed question to an answer for any medium."""
