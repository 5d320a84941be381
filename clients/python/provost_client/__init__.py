"""The run API of Provost: hand in work, watch it, steer it, answer its questions.

    from provost_client import Client

    client = Client()                      # PROVOST_SERVER and PROVOST_TOKEN say where and who
    accepted = client.submit_task({"message": "What is 6 * 7?"})
    for item in client.stream_run(accepted["run"]):
        if item.kind == "delta" and item.data["type"] == "text_delta":
            print(item.data["text"], end="", flush=True)
    print(client.get_run(accepted["run"])["answer"])
"""

from ._generated import Operations
from ._http import ApiError, ConnectionLost, StreamItem

__all__ = ["ApiError", "Client", "ConnectionLost", "StreamItem"]


class Client(Operations):
    """A client for one namespace of a server."""
