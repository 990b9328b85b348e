#!/bin/sh
# Commits what changed, with the message given; says so if nothing did.
set -eu
git add --all
if git diff --cached --quiet; then
    echo 'nothing changed'
else
    git commit --quiet --message "$1"
    git --no-pager show --stat=72 --format='committed %h %s' HEAD
fi
