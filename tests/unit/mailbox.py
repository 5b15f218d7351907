"""A real SMTP server that keeps what it gets."""

import email
import email.policy
import threading

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from tests.patience import PATIENCE
from tests.stores.processes import free_port


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[str] = []
        self._arrived = threading.Condition()
        self.port = free_port()
        self._server = Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=PATIENCE)
        self._server.start()

    async def handle_DATA(self, server: object, session: object, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        with self._arrived:
            self.mails.append(envelope.content.decode())
            self._arrived.notify_all()
        return "250 OK"

    def wait_for(self, count: int) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.mails) >= count, PATIENCE)

    def close(self) -> None:
        self._server.stop()

    @property
    def url(self) -> str:
        return f"mailto://127.0.0.1:{self.port}?from=holdfast@example.org&to=oncall@example.org&mode=insecure"

    @property
    def texts(self) -> list[str]:
        """Subject and plain text of each mail."""
        return [_text(mail) for mail in self.mails]


def _text(mail: str) -> str:
    parsed = email.message_from_string(mail, policy=email.policy.default)
    body = parsed.get_body(("plain",))
    assert body is not None
    return f"{parsed['Subject']}\n{body.get_content()}"
