"""A navigator's folder, here or on the hub: its configuration, weights, tokenizer, digests and model card."""
