"""Records from files: graphs, instructions, features, captions and boxes, or a generated house. No torch here."""
