"""``wiredecode check``: the problems of captures, or of an interface while it is captured."""

from __future__ import annotations

from wiredecode.cli.check_options import CheckOptions
from wiredecode.cli.output import complain


def check(settings: CheckOptions) -> int:
    """Find out what is wrong in captures: one block per cause, with evidence and what to do.

    The last line says what was judged. In a pipe, nothing is printed if nothing is wrong and all was decoded.
    Exit code 3: nothing could be judged. Numbers of frames and packets are those of other commands and of Wireshark.
    With -n and -Y the whole capture is judged, and problems of other connections are left out. With -i problems of an
    interface are printed as they begin and as they end, until Ctrl-C.
    """
    settings.check()
    from wiredecode.cli.check_job import FileCheck, watch, write_evidence

    if settings.live.interface is not None:
        return watch(settings)
    judging = FileCheck(settings)
    if code := judging.run():
        return code
    if judging.chosen is not None and not judging.chosen:
        complain("no connection matches: wiredecode follow lists them")
        return 1
    if settings.write is not None and (code := write_evidence(settings, judging.problems, settings.write)):
        return code
    return judging.exit_code
