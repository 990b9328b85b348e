"""First phase of the story leap-year: finds the failing tests and hands their names over."""

import json
import os

import suite

count, failing = suite.run()
for name, message in failing.items():
    print(f"{name}: {message}")
names = ", ".join(failing)
print(
    json.dumps(
        {
            "schema": "hq-phase-handoff/v1",
            "story_id": os.environ["MESHTUI_STORY_ID"],
            "phase": os.environ["MESHTUI_PHASE"],
            "worker_id": "agent.sh",
            "status": "passed" if failing else "blocked",
            "summary": f"{len(failing)} of {count} tests fail: {names}" if failing else "no test fails",
            "files_changed": [],
            "commits": [],
            "back_pressure": {
                "tests": "fail" if failing else "pass",
                "lint": "skip",
                "typecheck": "skip",
                "build": "skip",
            },
            "ac_evidence": [{"index": 0, "met": bool(failing), "evidence": f"ran {count} tests: {names or 'all pass'}"}],
            "context_for_next": f"failing tests: {names}",
        },
        indent=2,
    )
)
