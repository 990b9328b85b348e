#!/bin/sh
# What the mesh starts as a maker, in the place of a coding agent, in a working copy of this repository. It is
# a script and no AI: it knows the loops below, and changes what each owns with the programs in this folder.
# From the second iteration on its prompt, on standard input, says why the work was refused.
set -eu
python=${PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1
echo "maker.sh, a script and no AI, does: $MESHTUI_LOOP_ID, iteration $MESHTUI_ITERATION"

case $MESHTUI_LOOP_ID in
loop-years) "$python" tools/annotate.py years ;;
loop-months) "$python" tools/examples.py months ;;
loop-weekdays) "$python" tools/annotate.py weekdays ;;
loop-tests) "$python" tools/compare.py tests/test_library.py ;;
loop-docs) "$python" tools/reference.py docs/reference.md ;;
*)
    echo "maker.sh knows no loop '$MESHTUI_LOOP_ID': it is a script; see tools/maker.sh for what it can do" >&2
    exit 2
    ;;
esac
