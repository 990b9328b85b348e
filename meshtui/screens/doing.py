"""Having operations done from any screen, and remembering what ``u`` takes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from textual.message import Message

from meshtui import receipts
from meshtui.bridge import Bridge, Operations
from meshtui.bridges import Bridges
from meshtui.core.errors import MeshtuiError
from meshtui.messages import Did, Refused
from meshtui.receipts import WITH, Said

if TYPE_CHECKING:
    from textual.screen import Screen

    from meshtui.bridge import Engine
    from meshtui.missions import MissionOperations
    from meshtui.undo import Step, Steps

    _Base = Screen[None]
else:
    _Base = object

Work = Callable[[Operations], Any]
Undo = Callable[[Any], "Step | None"]
SHORT = 76
"""A command line up to this length stands in the receipt, too."""


class Rememberer(Protocol):
    """The app, as far as what was done goes."""

    steps: Steps
    bridges: Bridges

    def bridge_to(self, root: Path) -> Bridge | None: ...
    def post_message(self, message: Message) -> bool: ...
    def tell(self, text: str, severity: str = "information") -> None: ...
    def name_of(self, root: Path) -> str: ...


class Doing(_Base):
    """Mixed into every screen from which something is done."""

    if TYPE_CHECKING:

        def tell(self, text: str, severity: str = "information") -> None: ...

    @property
    def _doer(self) -> Rememberer:
        return cast("Rememberer", self.app)

    def operate_at(
        self,
        bridge: Bridge | None,
        work: Work,
        told: Callable[[Any], Said],
        *,
        create: bool = False,
        undo: Undo | None = None,
        command: str | None = None,
        again: Callable[[str], None] | None = None,
    ) -> None:
        """Have ``bridge`` do ``work``; ``undo`` makes of its receipt what ``u`` takes back.

        ``again`` opens the form anew in which it was written, with the reason why it was refused.
        """
        if bridge is None:
            return
        app, root = self._doer, bridge.run_dir.root

        def tell(receipt: Any) -> Said:
            step = undo(receipt) if undo is not None else None
            if step is not None:
                app.post_message(Did({root: step}))
            text, severity = told(receipt)
            return (f"{text}{WITH}{command}" if command and len(command) <= SHORT else text), severity

        bridge.operate(work, tell, create=create, failed=self.refusing(again))

    def operate_missions_at(
        self,
        bridge: Bridge | None,
        work: Callable[[MissionOperations], Any],
        told: Callable[[Any], Said],
        *,
        undo: Step,
        again: Callable[[str], None] | None = None,
    ) -> None:
        """Have ``bridge`` do ``work`` on missions; ``undo`` says what of it can be taken back."""
        if bridge is None:
            return
        app, root = self._doer, bridge.run_dir.root

        def tell(receipt: Any) -> Said:
            app.post_message(Did({root: undo}))
            return told(receipt)

        bridge.operate_missions(work, tell, failed=self.refusing(again))

    def refusing(self, again: Callable[[str], None] | None) -> Callable[[Exception], object] | None:
        """What a thread calls with an error, so that ``again`` is called here with its words."""
        return None if again is None else lambda error: self.post_message(Refused(error, again))

    def on_refused(self, message: Refused) -> None:
        message.again(str(message.error))

    def operate_each(
        self,
        works: Mapping[Path, Callable[[Engine], Any]],
        told: Callable[[Mapping[str, Any]], Said],
        *,
        undo: Callable[[Any], Step | None] | None = None,
    ) -> None:
        """Do ``works``, one a run directory, at the same time; one receipt tells of all, one ``u`` undoes them.

        ``told`` gets the receipts of what worked by the lane's name; errors are added to what it says.
        """
        app = self._doer

        def finished(found: Mapping[Path, Any]) -> None:
            good = {root: one for root, one in found.items() if not isinstance(one, Exception)}
            bad = {root: one for root, one in found.items() if isinstance(one, Exception)}
            steps = {root: undo(one) for root, one in good.items()} if undo is not None else {}
            app.post_message(Did({root: step for root, step in steps.items() if step is not None}))
            text, severity = (
                told({app.name_of(root): one for root, one in good.items()})
                if good
                else ("Nothing was done", "error")
            )
            for root, error in bad.items():
                said = str(error) if isinstance(error, (MeshtuiError, OSError)) else repr(error)
                text += f"; {app.name_of(root)}: {said}"
            app.tell(text, "warning" if bad and severity == "information" else severity)

        app.bridges.operate_each(works, finished)

    def undo_at(self, where: Path | None) -> None:
        """Take back what was done last in ``where``, or anywhere."""
        app = self._doer
        steps = app.steps.pop(where)
        able = {root: step for root, step in steps.items() if step.undo is not None}
        for step in steps.values():
            if step.undo is None:
                self.tell(f"{step.what[0].upper()}{step.what[1:]} cannot be undone: {step.told}", "warning")
        if len(able) == 1:
            [(root, only)] = able.items()
            bridge = app.bridge_to(root)
            if bridge is not None:
                bridge.operate(only.take_back, lambda _: (f"Undone: {only.what}; {only.told}", "information"))
        elif able:
            what = "; ".join(f"{app.name_of(root)}: {step.what}" for root, step in list(able.items())[:4])
            more = f"; and {len(able) - 4} lanes more" if len(able) > 4 else ""
            self.operate_each(
                {root: _taking_back(step) for root, step in able.items()},
                lambda done: (f"Undone in {receipts.count(len(done), 'lane')}: {what}{more}", "information"),
            )


def _taking_back(step: Step) -> Callable[[Engine], None]:
    return lambda engine: step.take_back(engine.operations())
