"""`python -m epibias.cli`."""

import sys

from epibias.cli import main

sys.exit(main())
