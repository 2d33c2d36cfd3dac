"""A packed network behind an HTTP server: items in as JSON, results out as JSON.

    asni train digits-fc
    asni pack runs/digits-fc/seed-0/asni-1 --graph -o net.asni
    python examples/serve.py net.asni
    python -c "print([[[[0.0] * 8] * 8]])" | curl http://127.0.0.1:8000 --data-binary @-

It needs `pip install uvicorn`, and neither torch nor ONNX. Requests run side by side: the engine releases the GIL.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import uvicorn

import asni

MOST_BYTES = 64 << 20

Message = dict[str, Any]


class App:
    """The engine as an ASGI application: POST a list of items, and get a list of their results."""

    def __init__(self, engine: asni.Engine) -> None:
        self.engine = engine

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        status, answer = await self.answer(scope["method"], receive)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def answer(self, method: str, receive: Callable[[], Awaitable[Message]]) -> tuple[int, object]:
        if method != "POST":
            return 405, {"error": "POST a list of items"}
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                return 413, {"error": f"more than {MOST_BYTES:,} bytes"}
        try:
            items = np.array(json.loads(body), np.float32)
            return 200, np.asarray(await asyncio.to_thread(self.engine, items)).tolist()
        except (ValueError, TypeError, RecursionError, asni.AsniError) as error:
            return 400, {"error": str(error)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a packed network.")
    parser.add_argument("file", help="a network packed with its graph")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(App(asni.load_engine(arguments.file)), port=arguments.port, lifespan="off")


if __name__ == "__main__":
    main()
