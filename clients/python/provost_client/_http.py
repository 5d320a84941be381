"""Connections, errors and streams: the part of the client that is not generated. Nothing but the standard library."""

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

#: A connection that brings nothing for so long is taken for dead; the server sends a sign of life every 15 seconds.
SILENCE_SECONDS = 45.0
#: The longest wait before a lost stream is taken up again.
RECONNECT_SECONDS_MAX = 10.0


class ApiError(Exception):
    """A refusal or a failure: branch on ``code``, show ``str(error)``."""

    def __init__(self, problem: dict[str, Any]):
        super().__init__(problem.get("detail", "the server refused"))
        self.problem = problem
        self.status: int = problem.get("status", 0)
        self.code: str = problem.get("code", "unknown")
        self.kind: str = problem.get("kind", "unavailable")
        self.retry_after_ms: Optional[int] = problem.get("retry_after_ms")


class ConnectionLost(ApiError):
    """No answer came."""

    def __init__(self, reason: object):
        super().__init__({"detail": f"no answer from the server: {reason}", "code": "transport", "kind": "unavailable"})


@dataclass(frozen=True)
class StreamItem:
    """One thing of a stream.

    ``event``: a durable event in ``data``; ``cursor`` goes on behind it. ``delta``: a live piece, which may be lost.
    ``reset``: forget what you had, everything begins anew. ``lagged``: live pieces were left out. ``end``: nothing follows.
    """

    kind: Literal["event", "delta", "reset", "lagged", "end"]
    data: Any = None
    cursor: Optional[str] = None


class Connection:
    """How to reach a server. ``url`` and ``token`` are taken from PROVOST_SERVER and PROVOST_TOKEN if they are left out."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        namespace: str = "default",
        timeout: float = 120.0,
    ):
        parts = urlsplit(url or os.environ.get("PROVOST_SERVER") or "http://127.0.0.1:7077")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the url of a server begins with http:// or https://")
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
        wait = timeout or self._timeout
        connection: http.client.HTTPConnection
        if self._tls:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=wait, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=wait)
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
        """Yields until the stream ends. A lost connection is taken up again behind the last event."""
        cursor = (query or {}).get("after")
        wait = 0.1
        while True:
            asked = {**(query or {}), "after": cursor}
            try:
                connection, response = self._open(method, path, asked, timeout=SILENCE_SECONDS, **options)
                try:
                    for item in _items(response):
                        wait = 0.1
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
            # Spread, so that many readers of a server that restarts do not all come back at once.
            time.sleep(wait * (0.5 + random.random()))
            wait = min(wait * 2, RECONNECT_SECONDS_MAX)


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
