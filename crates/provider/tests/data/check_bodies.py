"""Checks requests that our wires wrote against the request types that the vendors' own SDKs ship."""
import glob
import json
import sys

from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter, ValidationError

TYPES = {
    "openai": TypeAdapter(completion_create_params.CompletionCreateParamsStreaming),
    "responses": TypeAdapter(response_create_params.ResponseCreateParamsStreaming),
    "anthropic": TypeAdapter(message_create_params.MessageCreateParamsStreaming),
}


def drained(value):
    """Lazy iterables are only checked when somebody reads them."""
    if isinstance(value, dict):
        return {key: drained(inner) for key, inner in value.items()}
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return [drained(inner) for inner in value]


checked = 0
for name, adapter in TYPES.items():
    for path in sorted(glob.glob(f"{sys.argv[1]}/{name}-*.json")):
        with open(path, encoding="utf-8") as file:
            body = json.load(file)
        try:
            drained(adapter.validate_python(body))
        except ValidationError as error:
            sys.exit(f"{path}: {str(error)[:3000]}")
        checked += 1
assert checked >= 3 * len(TYPES), checked
print(f"{checked} requests are what the vendors' types say")
