"""Checkpoints of other programs, as key tables: `importing` reads them, `exporting` writes the published format."""
