"""Recurrent VLN-BERT as in the paper: read navigator.py first, then backbone.py and bert.py."""
