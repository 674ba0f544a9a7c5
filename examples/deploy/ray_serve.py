"""Ray Serve: serves an .rvm file; a client that goes away ends the run of its request.

    pip install 'ray[serve]' relayvm-runtime
    serve run examples.deploy.ray_serve:app path=words.rvm
"""

import relayvm_runtime
from ray import serve
from relayvm_runtime import oip
from starlette.responses import JSONResponse


@serve.deployment(max_ongoing_requests=16)
class RelayVM:
    def __init__(self, path, time_limit=60):
        # By path: replicas of a node share the memory of the mapped file.
        self.program = relayvm_runtime.load(path).with_limits(time_limit=time_limit)

    async def __call__(self, request):
        if request.method == "GET":
            return {**oip.metadata(self.program), "stats": self.program.stats._asdict()}
        body = await request.json()
        try:
            result = await self.program.call_async(**oip.decode(self.program, body.get("inputs", [])))
            return {"outputs": oip.encode(self.program, result)}
        except relayvm_runtime.Error as error:
            return JSONResponse({"error": str(error)}, status_code=oip.http_status(error))


def app(args):
    return RelayVM.bind(args["path"])
