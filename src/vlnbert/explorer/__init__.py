"""The page that `vlnbert explore` serves: watch agents read and walk, episode by episode or by a typed instruction.

`Explorer` knows the data and the agents, `WalkQueue` lets many visitors' walks be one batch, `make_app` is the web
application behind its `Guard`, and `serve` runs it. Requests are never trusted: nothing in one reaches
the file system, and all of them are bounded in size and time.
"""
