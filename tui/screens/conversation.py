"""The conversation so far, as the messages of the next request."""

from __future__ import annotations

import msgspec

from specmon.core.engine.messages import Request


class Conversation:
    """Questions and answers, oldest first; every request carries all of them."""

    def __init__(self, template: Request) -> None:
        self.template = template  # gives the requests all but their messages
        self._messages: list[tuple[str, str]] = []

    def take(self, request: Request) -> None:
        """Begin with a request that comes from elsewhere; `answered` closes it."""
        self._messages = list(request.messages)

    def ask(self, text: str) -> Request:
        """The request for the next turn; `answered` closes it."""
        self._messages.append(("user", text))
        return self._request(tuple(self._messages))

    def answered(self, text: str) -> None:
        """The turn is over with this answer, perhaps a part of one; without any the question is withdrawn."""
        if text:
            self._messages.append(("assistant", text))
        elif self._messages and self._messages[-1][0] == "user":
            self._messages.pop()

    def withdraw(self) -> None:
        """Take back the newest question and its answer."""
        if self._messages and self._messages[-1][0] == "assistant":
            self._messages.pop()
        if self._messages and self._messages[-1][0] == "user":
            self._messages.pop()

    def forget(self) -> None:
        """Start a new conversation."""
        self._messages.clear()

    @property
    def last_question(self) -> str | None:
        """The newest thing the user said."""
        return next((text for role, text in reversed(self._messages) if role == "user"), None)

    def once(self, text: str) -> Request:
        """A request for one question alone, outside this conversation."""
        return self._request((("user", text),))

    def _request(self, messages: tuple[tuple[str, str], ...]) -> Request:
        return msgspec.structs.replace(self.template, messages=messages)
