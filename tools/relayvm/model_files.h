// The files of models that verbs take, for texts that are put together when they are compiled.
#ifndef RVM_TOOLS_RELAYVM_MODEL_FILES_H_
#define RVM_TOOLS_RELAYVM_MODEL_FILES_H_

// Names the files in the usage of a verb.
#define RVM_MODEL_FILES \
  "FILE.onnx|FILE.pt2|FILE.pt|FILE.tflite|FILE.mlirbc|FILE.keras|FILE.cfg|NAME-symbol.json|FILE.pb|FILE.gguf|FOLDER"
// Lists their endings in messages, but for that of .gguf, the last one.
#define RVM_MODEL_ENDINGS ".onnx, .pt2, .pt, .tflite, .mlirbc, .keras, .cfg, -symbol.json, .pb"
// Names the folders that are models.
#define RVM_MODEL_FOLDERS "a folder with a config.json or a saved_model.pb"

#endif  // RVM_TOOLS_RELAYVM_MODEL_FILES_H_
