"""Records from files: graphs, instructions, features, captions and boxes. No torch here."""
