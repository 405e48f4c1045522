"""`python -m epibias`: the command line."""

import sys

from epibias.cli import main

if __name__ == "__main__":
    sys.exit(main())
