"""A data folder, opened: its world, its features and its splits; and an inventory of its files."""
