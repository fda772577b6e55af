"""What `import vlnbert as vln` offers: each verb of the command line as a function."""
