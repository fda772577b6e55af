"""Tasks, their episodes as tensors, instructions as tokens, and seeded batches."""
