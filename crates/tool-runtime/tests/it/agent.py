"""An agent of the reference library of A2A. It prints its port first, and `cancelled` when a task is."""

import asyncio
import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Task, TaskState, TaskStatus
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette


class Clerk(AgentExecutor):
    async def execute(self, context, queue):
        words = context.get_user_input()
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        await queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await task.start_work()
        if words == "fail":
            await task.failed(task.new_agent_message([Part(text="it broke")]))
        elif words == "ask":
            await task.requires_input(task.new_agent_message([Part(text="which year?")]))
        elif words == "hang":
            await asyncio.Event().wait()
        elif words == "parts":
            data = ParseDict({"n": 1}, Value())
            await task.add_artifact([Part(text="a"), Part(data=data), Part(raw=b"1,2", media_type="text/csv", filename="x.csv")])
            await task.complete()
        else:
            await task.add_artifact([Part(text=words)])
            await task.complete()

    async def cancel(self, context, queue):
        print("cancelled", flush=True)
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    interface = AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="clerk", description="a clerk", version="1", supported_interfaces=[interface],
        capabilities=AgentCapabilities(), default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
    )
    handler = DefaultRequestHandler(agent_executor=Clerk(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    print(port, flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    asyncio.run(server.serve(sockets=[listener]))


main()
