"""MLServer: serves the .rvm file that `parameters.uri` of model-settings.json names, by REST and gRPC.

    pip install mlserver relayvm-runtime
    mlserver start examples/deploy/mlserver
"""

import relayvm_runtime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import MLServerError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput
from mlserver.utils import get_model_uri
from relayvm_runtime import oip


class RelayVM(MLModel):
    async def load(self):
        self.program = relayvm_runtime.load(await get_model_uri(self._settings)).with_limits(time_limit=60)
        found = oip.metadata(self.program, self.name)
        self.inputs = [MetadataTensor(**one) for one in found["inputs"]]
        self.outputs = [MetadataTensor(**one) for one in found["outputs"]]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = [{"name": one.name, "datatype": str(one.datatype.value if hasattr(one.datatype, "value") else one.datatype),
                   "shape": one.shape, "data": NumpyCodec.decode_input(one)} for one in payload.inputs]
        try:
            # In a thread, so that other requests are answered meanwhile.
            result = await self.program.call_async(**oip.decode(self.program, inputs))
            outputs = oip.encode(self.program, result)
        except relayvm_runtime.Error as error:
            raise MLServerError(str(error), status_code=oip.http_status(error)) from error
        return InferenceResponse(model_name=self.name, model_version=self.version,
                                 outputs=[ResponseOutput(**one) for one in outputs])
