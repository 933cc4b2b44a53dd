"""A worker that dies as soon as it has started."""

import os


def main():
    os._exit(3)
