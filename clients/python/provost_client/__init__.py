"""Client for the HTTP API of Provost: submit tasks, stream events, steer runs and decide about approvals.

    from provost_client import Client

    client = Client()                      # reads PROVOST_SERVER and PROVOST_TOKEN
    receipt = client.submit_task({"message": "What is 6 * 7?"})
    for item in client.stream_run(receipt["run"]):
        if item.kind == "delta" and item.data["type"] == "text_delta":
            print(item.data["text"], end="", flush=True)
    print(client.get_run(receipt["run"])["answer"])
"""

from ._generated import Operations
from ._http import ApiError, ConnectionLost, StreamItem

__all__ = ["ApiError", "Client", "ConnectionLost", "StreamItem"]


class Client(Operations):
    """A client for one namespace of a server."""
