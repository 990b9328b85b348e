"""Runs the tests of this repository, for the tools that have to know which of them fail."""

import io
import subprocess
import sys
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))


def run(names=()):
    """The number of tests that ran, and the messages of those that failed, by name; all without names."""
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names) if names else loader.discover("tests", top_level_dir=str(TOP))
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    bad = [*result.failures, *result.errors]
    return result.testsRun, {test.id(): text.strip().splitlines()[-1] for test, text in bad}


def git(*arguments):
    """What git prints for these arguments; ends the program with its words where it fails."""
    done = subprocess.run(["git", *arguments], check=False, capture_output=True, text=True, cwd=TOP)
    if done.returncode != 0:
        sys.exit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
