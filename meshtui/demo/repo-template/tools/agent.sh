#!/bin/sh
# What the lane starts for each phase, in the place of a coding agent. It is a script and no AI: it reads its
# prompt from standard input like an agent, but knows only the tasks below, and does them with the programs
# in this folder. What it prints is its reply.
set -eu
prompt=$(cat)
python=${PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1

# The lane says in the environment which story and phase this is; other prompts begin with their task.
if [ -n "${MESHTUI_STORY_ID:-}" ]; then
    task=$MESHTUI_STORY_ID/$MESHTUI_PHASE
else
    task=${prompt%%:*}
fi
echo "agent.sh, a script and no AI, does: $task"

case $task in
tidy)
    "$python" tools/tidy.py almanac tests
    sh tools/commit.sh 'Tidy white space'
    ;;
imports)
    "$python" tools/sort_imports.py almanac tests
    sh tools/commit.sh 'Sort imports'
    ;;
compile)
    "$python" -W error -m compileall -f -q almanac tests tools
    echo 'everything compiles'
    ;;
test)
    if ! "$python" -m unittest discover --verbose 2>&1; then
        echo 'the unit tests fail' >&2
        exit 1
    fi
    ;;
leap-year/diagnose)
    "$python" tools/diagnose.py
    ;;
leap-year/repair)
    printf '%s\n' "$prompt" | "$python" tools/repair.py
    ;;
docs)
    "$python" tools/docs_index.py
    sh tools/commit.sh 'Index the documentation'
    ;;
soak)
    "$python" tools/soak.py 3
    ;;
changelog)
    "$python" tools/changelog.py
    sh tools/commit.sh 'Write the changelog'
    ;;
*)
    echo "agent.sh knows no task '$task': it is a script; see tools/agent.sh for what it can do" >&2
    exit 2
    ;;
esac
