"""The world as tensors: graphs, panorama geometry, candidate tables, distances, next hops and feature banks."""
