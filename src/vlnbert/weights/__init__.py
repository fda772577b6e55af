"""Other people's checkpoints, as key tables: `importing` reads them, `exporting` writes the published format."""
