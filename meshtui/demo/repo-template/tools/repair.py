"""Second phase of the story leap-year: applies the patch kept for each failing test that was handed over.

The names come from the handoff of the phase before, which stands in the prompt on standard input. A coding
agent would think of a change; this one has it ready in tools/fixes/.
"""

import json
import os
import re
import sys

import suite

found = re.search(r'"context_for_next": "failing tests: ([^"]+)"', sys.stdin.read())
if found is None:
    sys.exit("the prompt holds no handoff that names failing tests")
wanted = found[1].split(", ")
for name in wanted:
    patch = f"tools/fixes/{name}.patch"
    suite.git("apply", patch)
    print(f"applied {patch}")
count, failing = suite.run()
commits, changed = [], suite.git("diff", "--name-only").splitlines()
if not failing:
    suite.git("commit", "--quiet", "--all", "--message", "Centuries are no leap years")
    commits = [suite.git("rev-parse", "--short", "HEAD")]
print(
    json.dumps(
        {
            "schema": "hq-phase-handoff/v1",
            "story_id": os.environ["MESHTUI_STORY_ID"],
            "phase": os.environ["MESHTUI_PHASE"],
            "worker_id": "agent.sh",
            "status": "failed" if failing else "passed",
            "summary": f"{count - len(failing)} of {count} tests pass after {len(wanted)} patch",
            "files_changed": changed,
            "commits": commits,
            "back_pressure": {
                "tests": "fail" if failing else "pass",
                "lint": "skip",
                "typecheck": "skip",
                "build": "skip",
            },
            "ac_evidence": [
                {
                    "index": 0,
                    "met": not set(wanted) & set(failing),
                    "evidence": f"ran {', '.join(wanted)} again after the patch",
                },
                {"index": 1, "met": not failing, "evidence": f"ran all {count} tests, {len(failing)} failed"},
            ],
            "context_for_next": "nothing is left to do",
        },
        indent=2,
    )
)
