"""A small MCP server over its pipes that behaves well or badly, as its first argument says. For tests only."""

import json
import os
import subprocess
import sys
import threading

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
OBJECT = {"type": "object"}
SEEN = []
LISTS = [0]
EXTRA = [False]


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request, result):
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request, code, message):
    write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def notify(method, params=None):
    write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def tool(name, schema=None, **more):
    return {"name": name, "description": "Does " + name, "inputSchema": schema or OBJECT, **more}


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


GOOD = [
    tool("echo", schema(message={"type": "string", "minLength": 2}), annotations={"readOnlyHint": True}),
    tool("put", annotations={"idempotentHint": True}),
    tool("wipe", annotations={"destructiveHint": True}),
    tool("refuse"), tool("fail"), tool("slow"), tool("progress"), tool("meta"), tool("environ"),
    tool("seen"), tool("die"), tool("pids"), tool("change"), tool("lists"), tool("ask"), tool("deaf"),
    tool("big"), tool("endless"), tool("odd"), tool("storm"), tool("talk"), tool("orphan"),
]


def pages(request):
    """The list of tools, as the mode has it."""
    cursor = (request.get("params") or {}).get("cursor")
    if MODE == "pages":
        at = int(cursor or 0)
        page = {"tools": [tool("t%d" % at)]}
        return {**page, "nextCursor": str(at + 1)} if at < 2 else page
    if MODE == "same_page":
        return {"tools": [tool("t")], "nextCursor": "again"}
    if MODE == "endless_pages":
        at = int(cursor or 0)
        return {"tools": [tool("t%d" % at)], "nextCursor": str(at + 1)}
    if MODE == "huge_list":
        return {"tools": [tool("t%d" % at) for at in range(20000)]}
    if MODE == "fat_schemas":
        fat = {"type": "object", "description": "x" * 300000}
        return {"tools": [tool("fat", fat), tool("thin")]}
    if MODE == "wrong_schemas":
        return {"tools": [
            tool("text", "nonsense"), tool("number", {"type": "number"}), tool("loop", {"type": 7}),
            tool("remote", {"type": "object", "$ref": "http://127.0.0.1:9/schema.json"}),
            {"inputSchema": OBJECT}, None, 7, tool("good"), tool("good"), tool("with.dots"),
        ]}
    if MODE == "no_list":
        return {"tools": "none"}
    if MODE == "modern":
        return {"tools": GOOD, "resultType": "complete", "ttlMs": 3600000, "cacheScope": "public"}
    LISTS[0] += 1
    return {"tools": GOOD + ([tool("extra")] if EXTRA[0] else [])}


def call(request):
    params = request["params"]
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "echo":
        answer(request, text(arguments["message"]))
    elif name == "refuse":
        refuse(request, arguments.get("code", -32602), "not like this")
    elif name == "fail":
        answer(request, {**text("it broke"), "isError": True})
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for step in range(arguments.get("steps", 3)):
            notify("notifications/progress", {"progressToken": token, "progress": step + 1, "total": 3, "message": "step"})
        answer(request, text("all steps done"))
    elif name == "meta":
        answer(request, text(json.dumps(params.get("_meta") or {})))
    elif name == "environ":
        answer(request, text(json.dumps({"env": dict(os.environ), "dir": os.getcwd()})))
    elif name == "seen":
        answer(request, text(json.dumps(SEEN)))
    elif name == "die":
        sys.stderr.write("x" * 100000 + "\nthe roof is on fire\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "orphan":
        # The child holds the pipes open.
        subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        os._exit(5)
    elif name == "pids":
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        answer(request, text(json.dumps([os.getpid(), child.pid])))
    elif name == "change":
        EXTRA[0] = True
        notify("notifications/tools/list_changed")
        answer(request, text("changed"))
    elif name == "lists":
        answer(request, text(str(LISTS[0])))
    elif name == "storm":
        for _ in range(5000):
            notify("notifications/tools/list_changed")
        answer(request, text("stormed"))
    elif name == "big":
        answer(request, text("y" * (1024 * 1024)))
    elif name == "odd":
        answer(request, {"content": [{"type": "hologram"}, {"type": "text", "text": "flat"}]})
    elif name == "endless":
        sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request["id"])
        while True:
            sys.stdout.write("z" * 65536)
    elif name == "talk":
        for at in range(1000):
            write({"jsonrpc": "2.0", "id": "q%d" % at, "method": "ping"})
        # Nothing is read any more: whoever answers is on his own.
        threading.Event().wait()
    elif name == "deaf":
        threading.Event().wait()
    elif name == "ask":
        write({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
        answer(request, text("asked"))
    elif name == "slow":
        pass
    else:
        answer(request, text(name + " done"))


def greet(request):
    if MODE == "slow_hello":
        return
    if MODE == "wrong_hello":
        write({"jsonrpc": "2.0", "id": request["id"], "result": {"hello": "world"}})
        return
    info = {"name": "test", "version": "1"}
    capabilities = {"tools": {"listChanged": True}}
    if request["method"] == "server/discover":
        answer(request, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": info,
                         "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
    else:
        version = request["params"]["protocolVersion"]
        answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})


def main():
    sys.stderr.write("starting as %s\n" % MODE)
    sys.stderr.flush()
    if MODE == "exits":
        sys.exit("no config")
    if MODE == "noise":
        sys.stdout.write("Welcome!\n{\"this\": \"is no message\"}\n\n[1,2\n")
    if MODE == "only_noise":
        while True:
            sys.stdout.write("noise\n")
    for line in sys.stdin:
        message = json.loads(line)
        SEEN.append(message)
        method = message.get("method")
        if method == "server/discover" and MODE == "touchy":
            sys.exit("what is that")
        if method == "server/discover" and MODE != "modern" and MODE != "slow_hello":
            refuse(message, -32601, "unknown method")
        elif method in ("initialize", "server/discover"):
            greet(message)
        elif method == "tools/list":
            if MODE == "dies_listing":
                os._exit(4)
            if MODE != "mute_list":
                answer(message, pages(message))
        elif method == "tools/call":
            call(message)
        elif method == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            filters = {"notifications": message["params"]["notifications"], "_meta": meta}
            notify("notifications/subscriptions/acknowledged", filters)
    if MODE == "lingers":
        threading.Event().wait()


main()
