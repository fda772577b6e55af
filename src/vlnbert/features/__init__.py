"""Features of views and objects: named by a `FeatureSpec`, made of channels, opened as banks."""
