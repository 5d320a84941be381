"""A server made with the reference library: `stdio`, or `http PORT`. For tests only."""

import sys

from mcp.server import MCPServer

server = MCPServer("reference")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if sys.argv[1] == "stdio":
    server.run(transport="stdio")
else:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
