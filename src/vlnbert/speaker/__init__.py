"""Speakers: networks that read a path and write an instruction for it. Read model.py first, then decoding.py."""
