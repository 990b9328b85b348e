"""Calls: the one way meshtui starts programs for work, follows them, adopts them and ends them."""

from meshtui.core.calls.call import Call, CallState, Ending, EndReason
from meshtui.core.calls.children import children
from meshtui.core.calls.ending import EndReport
from meshtui.core.calls.files import CallExit
from meshtui.core.calls.output import OutputFollower, open_output, read_tail, tail_text
from meshtui.core.calls.spec import CALL_ID_VARIABLE, CallRole, CallSpec, new_call_id, scrubbed_environment
from meshtui.core.calls.wake import Waker

__all__ = [
    "CALL_ID_VARIABLE",
    "Call",
    "CallExit",
    "CallRole",
    "CallSpec",
    "CallState",
    "EndReason",
    "EndReport",
    "Ending",
    "OutputFollower",
    "Waker",
    "children",
    "new_call_id",
    "open_output",
    "read_tail",
    "scrubbed_environment",
    "tail_text",
]
