"""The official SDKs ask the fake provider; each question gets the next reply of its script."""
import json
import sys

import anthropic
import openai

url = sys.argv[1]
o = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
a = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="k", max_retries=0)
hi = [{"role": "user", "content": "Hi"}]
tool = {"type": "object", "properties": {"q": {"type": "string"}}}

# Chat Completions: text with usage, then calls.
with o.chat.completions.stream(
    model="fake-1", messages=hi, stream_options={"include_usage": True}
) as stream:
    for _ in stream:
        pass
    done = stream.get_final_completion()
assert done.choices[0].message.content == "Hello there", done
assert done.choices[0].finish_reason == "stop" and done.usage.prompt_tokens == 10, done
with o.chat.completions.stream(
    model="fake-1",
    messages=hi,
    tools=[{"type": "function", "function": {"name": "search", "parameters": tool, "strict": True}}],
) as stream:
    for _ in stream:
        pass
    done = stream.get_final_completion()
calls = done.choices[0].message.tool_calls
assert [json.loads(call.function.arguments)["q"] for call in calls] == ["a", "b"], done
assert [call.id for call in calls] == ["c1", "c2"]

# Responses: thoughts, text and calls.
with o.responses.stream(model="fake-1", input="Hi") as stream:
    kinds = [event.type for event in stream]
    done = stream.get_final_response()
assert done.output_text == "" or done.output_text == "Hello there", done
assert "response.output_text.delta" in kinds and "response.completed" in kinds, kinds
assert done.usage.input_tokens == 10, done
events = list(o.responses.create(model="fake-1", input="Hi", stream=True))
items = [event.item for event in events if event.type == "response.output_item.done"]
assert [item.type for item in items] == ["reasoning", "function_call", "function_call"], items
assert items[0].encrypted_content == "sealed==" and json.loads(items[1].arguments) == {"q": "a"}

# Messages: text with usage, then thoughts and calls.
with a.messages.stream(model="fake-1", max_tokens=9, messages=hi) as stream:
    assert "".join(stream.text_stream) == "Hello there"
    done = stream.get_final_message()
assert done.stop_reason == "end_turn" and done.usage.output_tokens == 5, done
with a.messages.stream(
    model="fake-1", max_tokens=9, messages=hi, tools=[{"name": "search", "input_schema": tool}]
) as stream:
    done = stream.get_final_message()
assert [block.type for block in done.content] == ["thinking", "tool_use", "tool_use"], done
assert done.content[0].signature == "sealed==" and done.content[1].input == {"q": "a"}, done
assert done.stop_reason == "tool_use"

# Failures have the types of the vendors.
for ask, wanted in [
    (lambda: o.chat.completions.create(model="m", messages=hi, stream=True), openai.RateLimitError),
    (lambda: o.responses.create(model="m", input="Hi", stream=True), openai.AuthenticationError),
    (lambda: a.messages.create(model="m", max_tokens=9, messages=hi, stream=True), anthropic.NotFoundError),
]:
    try:
        ask()
    except wanted:
        continue
    raise AssertionError(f"no {wanted}")
assert [model.id for model in o.models.list()] == ["fake-1"]
print("the SDKs of OpenAI and Anthropic understand the fake provider")
