"""`python -m tutti.train`."""

import sys

from tutti.train.launch import main

sys.exit(main())
