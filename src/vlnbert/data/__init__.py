"""A data folder, opened: its world, what agents see there, and its splits."""
