"""`python -m vlnbert`, the same as the command."""

from vlnbert.cli.main import main

if __name__ == "__main__":
    main()
