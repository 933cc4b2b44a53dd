"""Loaded by every worker process of a command that benchmarks/faults.py disturbs."""

import os
import sys

if "FAULTS" in os.environ:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import fault_processes

    fault_processes.arm()
    if any("studies.worker" in word for word in sys.orig_argv):  # roll-outs fit nothing
        fault_processes.shorten_fits()
