"""KServe: serves an .rvm file as a custom model, by REST and gRPC of the Open Inference Protocol.

    pip install kserve relayvm-runtime
    python examples/deploy/kserve_server.py --model_name words --rvm words.rvm
"""

import argparse

import kserve
import relayvm_runtime
from kserve.errors import InferenceError, InvalidInput
from relayvm_runtime import oip


class RelayVM(kserve.Model):
    def __init__(self, name, path):
        super().__init__(name)
        self.path = path

    def load(self):
        self.program = relayvm_runtime.load(self.path).with_limits(time_limit=60)
        self.ready = True
        return True

    async def get_input_types(self):
        return oip.metadata(self.program)["inputs"]

    async def get_output_types(self):
        return oip.metadata(self.program)["outputs"]

    async def predict(self, payload, headers=None, response_headers=None):
        inputs = [{"name": one.name, "datatype": one.datatype, "shape": list(one.shape), "data": one.as_numpy()} for one in payload.inputs]
        try:
            result = await self.program.call_async(**oip.decode(self.program, inputs))
            outputs = oip.encode(self.program, result, as_arrays=True)
        except relayvm_runtime.InvalidArgument as error:
            raise InvalidInput(str(error)) from error
        except relayvm_runtime.Error as error:
            raise InferenceError(str(error)) from error
        answers = []
        for one in outputs:
            answers.append(kserve.InferOutput(name=one["name"], shape=one["shape"], datatype=one["datatype"]))
            answers[-1].set_data_from_numpy(one["data"], binary_data=False)
        return kserve.InferResponse(response_id=payload.id or "0", model_name=self.name, infer_outputs=answers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--rvm", required=True, help="the executable")
    options, _ = parser.parse_known_args()
    model = RelayVM(options.model_name, options.rvm)
    model.load()
    kserve.ModelServer().start([model])
