"""What open data shows: captions, detections and object names, through a text encoder."""
