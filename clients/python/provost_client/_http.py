"""Connections, errors and streams: the part of the client that is not generated. It uses only the standard library."""

import http.client
import json
import os
import random
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Optional
from urllib.parse import quote, urlencode, urlsplit

#: Seconds without data after which a stream reconnects. The server sends a heartbeat every 15 seconds.
SILENCE_SECONDS = 45.0
#: Maximum delay in seconds before a stream reconnects.
RECONNECT_SECONDS_MAX = 10.0


class ApiError(Exception):
    """An error response. Programs branch on ``code``; ``str(error)`` is for users."""

    def __init__(self, problem: dict[str, Any]):
        super().__init__(problem.get("detail", "the server returned an error"))
        self.problem = problem
        self.status: int = problem.get("status", 0)
        self.code: str = problem.get("code", "unknown")
        self.kind: str = problem.get("kind", "unavailable")
        self.retry_after_ms: Optional[int] = problem.get("retry_after_ms")


class ConnectionLost(ApiError):
    """The request received no response."""

    def __init__(self, reason: object):
        super().__init__({"detail": f"no response from the server: {reason}", "code": "transport", "kind": "unavailable"})


@dataclass(frozen=True)
class StreamItem:
    """An item of an event stream.

    ``event``: a durable event in ``data``; a stream that starts with ``after=cursor`` continues with the next event.
    ``delta``: a live delta, which can be lost. ``reset``: the stream restarts at the oldest stored event, so the client
    discards its state. ``lagged``: the server dropped deltas. ``end``: the run has ended, and no item follows.
    """

    kind: Literal["event", "delta", "reset", "lagged", "end"]
    data: Any = None
    cursor: Optional[str] = None


class Connection:
    """A connection to a server. The defaults of ``url`` and ``token`` are PROVOST_SERVER and PROVOST_TOKEN."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        namespace: str = "default",
        timeout: float = 120.0,
    ):
        parts = urlsplit(url or os.environ.get("PROVOST_SERVER") or "http://127.0.0.1:7077")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the URL of a server must begin with http:// or https://")
        self.namespace = namespace
        self._host, self._port, self._tls = parts.hostname, parts.port, parts.scheme == "https"
        self._token = token or os.environ.get("PROVOST_TOKEN")
        self._timeout = timeout

    @staticmethod
    def _part(text: str) -> str:
        return quote(text, safe="")

    def _open(
        self,
        method: str,
        path: str,
        query: Optional[dict[str, Any]] = None,
        headers: Optional[dict[str, Optional[str]]] = None,
        body: Any = None,
        timeout: Optional[float] = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        pairs = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        target = path + ("?" + urlencode(pairs) if pairs else "")
        sent = {key: value for key, value in (headers or {}).items() if value is not None}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        timeout = timeout or self._timeout
        connection: http.client.HTTPConnection
        if self._tls:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.request(method, target, body=data, headers=sent)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionLost(error) from error
        if response.status >= 400:
            try:
                raise ApiError(_problem(response))
            finally:
                response.close()
                connection.close()
        return connection, response

    def _read(self, *arguments: Any, **options: Any) -> bytes:
        connection, response = self._open(*arguments, **options)
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(error) from error
        finally:
            connection.close()

    def _call(self, *arguments: Any, **options: Any) -> Any:
        content = self._read(*arguments, **options)
        return json.loads(content) if content else None

    def _text(self, *arguments: Any, **options: Any) -> str:
        return self._read(*arguments, **options).decode()

    def _stream(self, method: str, path: str, query: Optional[dict[str, Any]] = None, **options: Any) -> Iterator[StreamItem]:
        """Yields items until the stream ends. After a lost connection the stream continues after the last event."""
        cursor = (query or {}).get("after")
        delay = 0.1
        while True:
            parameters = {**(query or {}), "after": cursor}
            try:
                connection, response = self._open(method, path, parameters, timeout=SILENCE_SECONDS, **options)
                try:
                    for item in _items(response):
                        delay = 0.1
                        cursor = item.cursor or cursor
                        yield item
                        if item.kind == "end":
                            return
                        if item.kind == "reset":
                            cursor = None
                finally:
                    response.close()
                    connection.close()
            except ApiError as error:
                if not isinstance(error, ConnectionLost) and error.kind not in ("unavailable", "rate_limited"):
                    raise
            except (OSError, http.client.HTTPException):
                pass
            # Random, so that the clients of a restarted server do not all reconnect at once.
            time.sleep(delay * (0.5 + random.random()))
            delay = min(delay * 2, RECONNECT_SECONDS_MAX)


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _problem(response: http.client.HTTPResponse) -> dict[str, Any]:
    content = response.read(1 << 20)
    try:
        problem = json.loads(content)
        if isinstance(problem, dict):
            return problem
    except ValueError:
        pass
    return {"detail": f"HTTP {response.status}", "status": response.status, "code": "unreadable", "kind": "malformed"}


def _items(response: http.client.HTTPResponse) -> Iterator[StreamItem]:
    cursor, kind, data = None, "message", []
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text:
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if field == "id":
                cursor = value
            elif field == "event":
                kind = value
            elif field == "data":
                data.append(value)
            continue
        if data or kind in ("reset", "lagged", "end"):
            content = json.loads("\n".join(data)) if data else None
            control = kind if kind in ("delta", "reset", "lagged", "end") else "event"
            yield StreamItem(control, content, cursor if control == "event" else None)  # type: ignore[arg-type]
        cursor, kind, data = None, "message", []
