"""The open data from its public repositories, verified against the manifest that ships with the package; no torch."""
