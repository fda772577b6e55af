"""Many agents at once on one device: reset, observe, step, the shortest-path teacher, and a Gymnasium environment."""
