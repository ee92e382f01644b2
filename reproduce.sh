#!/bin/sh
# Every result of the paper that is not there yet, in order; finished ones stay, so it can be stopped and started again.
exec .venv/bin/keepset reproduce "$@"
