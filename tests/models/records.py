"""Writes the records of the models: `python tests/models/records.py [MODEL...]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.models.records import main

if __name__ == "__main__":
    main(sys.argv[1:])
