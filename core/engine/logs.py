"""Log lines as `Log` events, so that the log pane and the recording have them too."""

from __future__ import annotations

import logging

from specmon.core.engine.stream import Stream
from specmon.core.events import Log

#: Loggers of what carries events: their lines go to the file alone, or one line would call for the next.
_CARRIERS = ("specmon.core.session", "specmon.core.engine.outbox")


class StreamLogHandler(logging.Handler):
    """Emits each line from INFO up once the stream has begun; what came before is in the log file."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(logging.INFO)
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if self._stream.begun and not record.name.startswith(_CARRIERS):
            t = self._stream.clock()
            self._stream.emit(Log(t=t, level=record.levelname.lower(), text=record.getMessage()))
