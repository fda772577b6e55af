"""Rewards, returns and losses: tensors in, tensors out; a loss never reaches into a trainer."""
