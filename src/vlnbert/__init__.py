"""Recurrent VLN-BERT: agents that read an instruction and walk through a house, by attention alone."""

__version__ = "0.1.0"
