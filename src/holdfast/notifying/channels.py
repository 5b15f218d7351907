"""Where messages go, by URL: a webhook (`https://`, `http://`), or anything that apprise knows (`slack://`, `mailto://`)."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from holdfast.alarm import Alarm, Receiver
from holdfast.errors import InvalidSettings
from holdfast.notifying.message import Message, incident_key, message_about
from holdfast.showing import shown
from holdfast.version import VERSION

ANSWER_S = 10.0
"""How long a receiver may take to connect, and between two parts of its answer."""
_WEBHOOKS = ("http", "https")
_TONES = {"critical": "failure", "warning": "warning", "info": "info", "over": "success"}


class NotDelivered(Exception):
    """The receiver did not take the message."""


@dataclass(frozen=True)
class Channel:
    """A receiver that takes messages. Called with one alarm, it sends a message about that alarm."""

    name: str
    """Without secrets: the path of a webhook is one."""
    post: Callable[[Message], None]
    """Raises `NotDelivered`."""

    def __call__(self, alarm: Alarm) -> None:
        self.post(message_about((alarm,), alarm.at))

    def __repr__(self) -> str:
        return self.name


def receivers_of(given: Iterable[Receiver | str]) -> tuple[Receiver, ...]:
    """Functions as they are, URLs as channels. Raises `InvalidSettings` for a URL that cannot be used."""
    return tuple(channel_to(each) if isinstance(each, str) else each for each in given)


def channel_to(url: str) -> Channel:
    parts = urlsplit(url)
    if parts.scheme in _WEBHOOKS:
        if not parts.hostname:
            raise InvalidSettings.of("alarms", url, "must name a host")
        return Channel(shown_url(url), lambda message: post_json(url, message.document()))
    return Channel(shown_url(url), _by_apprise(url))


def shown_url(url: str) -> str:
    """Scheme and host: the rest of a URL that takes alarms is a secret more often than not."""
    parts = urlsplit(url)
    if parts.scheme not in _WEBHOOKS:
        return f"{parts.scheme}://…"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/…"


def post_json(url: str, document: Mapping[str, Any]) -> None:
    _ask(url, json.dumps(document).encode(), {"Content-Type": "application/json"})


def call(url: str) -> None:
    """A GET whose answer must be a success: how services that expect a regular sign of life are called."""
    _ask(url, None, {})


def _ask(url: str, data: bytes | None, headers: dict[str, str]) -> None:
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, data, {"User-Agent": f"holdfast/{VERSION}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise NotDelivered(f"it answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise NotDelivered(f"could not connect: {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise NotDelivered(f"no answer: {error or type(error).__name__}") from error


def _by_apprise(url: str) -> Callable[[Message], None]:
    try:
        import apprise
    except ImportError as error:
        hint = "pip install 'holdfast-spark[alarms]'; a webhook at an https:// URL needs nothing more"
        raise InvalidSettings(f"could not use {shown_url(url)} for alarms: apprise is missing", hint=hint) from error
    target = apprise.Apprise.instantiate(url)
    if target is None:
        rule = "must be an https:// URL, or one that apprise knows, such as slack://, pagerduty:// or mailto://"
        raise InvalidSettings.of(
            "alarms", shown_url(url), rule, hint="check the scheme and its parts in apprise's list"
        )

    def notify(target: Any, message: Message) -> None:
        with apprise.LogCapture(level=apprise.logging.WARNING) as said:
            taken = target.notify(
                body=message.text, title=message.title, notify_type=_TONES[message.tone], body_format="text"
            )
            why = " ".join(said.getvalue().split()) if not taken else ""
        if not taken:
            raise NotDelivered(why or "apprise could not deliver it")

    def post(message: Message) -> None:
        if not _keeps_incidents(url):
            notify(target, message)
            return
        for alarm in message.alarms:
            incident = apprise.Apprise.instantiate(_of_its_incident(url, alarm))
            notify(incident, message_about((alarm,), message.sent_at))

    return post


def _keeps_incidents(url: str) -> bool:
    """Whether an alarm is an incident there, which its end resolves; unless the URL says how incidents are made."""
    parts = urlsplit(url)
    return parts.scheme == "pagerduty" and not parse_qs(parts.query).keys() & {"action", "dedup"}


def _of_its_incident(url: str, alarm: Alarm) -> str:
    """Repeated, it is the same incident. `group` and `class` are what PagerDuty groups the alerts of many jobs by."""
    incident = {"action": "map", "dedup": incident_key(alarm), "group": shown(alarm.home), "class": alarm.code}
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(incident)}"
