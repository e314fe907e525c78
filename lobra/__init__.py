"""The language of the project: the nouns every room speaks, and nothing else."""
