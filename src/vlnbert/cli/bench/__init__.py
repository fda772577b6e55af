"""`vlnbert bench`: how fast it is, here and now; one file a verb."""
