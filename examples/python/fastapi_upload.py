"""A web service that streams uploads of any size into a store, with 16 MiB of memory for all of them together. If a client
disconnects, nothing is visible. Credentials and endpoint come from the environment.

TIDEGATE_URL=s3://bucket/prefix uvicorn fastapi_upload:app
curl --upload-file FILE http://127.0.0.1:8000/objects/NAME
"""

import os
import sys

import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

import tidegate
import tidegate.aio

app = FastAPI()
tide = tidegate.Tidegate(memory=16 << 20)
store = tidegate.aio.Store(os.environ["TIDEGATE_URL"], tide=tide)


@app.put("/objects/{key:path}", status_code=201, response_model=None)
async def upload(key: str, request: Request) -> dict | Response:
    try:
        # While the store is slower than the client, `write` waits, and so the client does.
        async with await store.writer(key) as file:
            async for piece in request.stream():
                await file.write(piece)
    except ClientDisconnect:
        return Response(status_code=499)
    return {"key": key, "size": file.object.size, "etag": file.object.etag}


@app.get("/memory")
async def memory() -> dict[str, int]:
    return tide.usage()


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
