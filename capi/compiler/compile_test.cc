#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "include/relayvm/relayvm_compiler.h"

namespace {

struct Free {
  void operator()(rvm_compilation* compilation) const { rvm_compilation_free(compilation); }
};
using Compilation = std::unique_ptr<rvm_compilation, Free>;

constexpr char kText[] = "def @main(%x: int32) -> int32 { %x + 1 }";

Compilation Compile(const rvm_compile_options& options) {
  return Compilation(rvm_compile("a.relay", kText, sizeof(kText) - 1, &options));
}

TEST(CompileTest, OptionsOfAnotherVersion) {
  rvm_compile_options options = {.struct_size = 8, .opt_level = 1};
  options.target = reinterpret_cast<const char*>(uintptr_t{1});  // a field that the caller does not know
  EXPECT_NE(rvm_compilation_bytes(Compile(options).get(), nullptr), nullptr);
  options.struct_size = 0;
  EXPECT_STREQ(rvm_compilation_message(Compile(options).get()),
               "error: `struct_size` of rvm_compile_options is 0; expected sizeof(rvm_compile_options)\n");
}

TEST(CompileTest, NullStrings) {
  const char* none = nullptr;
  rvm_compile_options options = {.struct_size = sizeof(options), .entries = &none, .entry_count = 1};
  EXPECT_STREQ(rvm_compilation_message(Compile(options).get()), "error: `entries`: saw NULL; expected 1 strings\n");
  options = {.struct_size = sizeof(options), .params_file_count = 2};
  EXPECT_STREQ(rvm_compilation_message(Compile(options).get()),
               "error: `params_files`: saw NULL; expected 2 strings\n");
}

TEST(CompileTest, ControlIsNativeOrBytecode) {
  auto size = [](const char* control) {
    rvm_compile_options options = {.struct_size = sizeof(options), .opt_level = 1};
    options.control = control;
    size_t bytes = 0;
    rvm_compilation_bytes(Compile(options).get(), &bytes);
    return bytes;
  };
  EXPECT_EQ(size("bytecode"), size(nullptr));
  EXPECT_GT(size("native"), size("bytecode"));
  EXPECT_EQ(size("fast"), 0u);
  rvm_compile_options options = {.struct_size = sizeof(options)};
  options.control = "fast";
  EXPECT_STREQ(rvm_compilation_message(Compile(options).get()),
               "error: saw the control `fast`; expected `native` or `bytecode`\n");
}

TEST(CompileTest, DeviceLibraries) {
  rvm_compile_options options = {.struct_size = sizeof(options)};
  options.device_libraries = "/nowhere/libnpu.so";
  std::string message = rvm_compilation_message(Compile(options).get());
  EXPECT_NE(message.find("error: the accelerator library cannot be opened: /nowhere/libnpu.so"), std::string::npos)
      << message;
  // A caller with an older header has no such field.
  options.struct_size -= sizeof(options.device_libraries);
  EXPECT_NE(rvm_compilation_bytes(Compile(options).get(), nullptr), nullptr);
}

// Returns the report of a program with one product that is measured by `time`; "{}" if it fails.
std::string QuantizeReport(int (*time)(void*, const rvm_program_bytes*, size_t, const int64_t*, const rvm_named_tensor*,
                                       double*)) {
  constexpr char kProduct[] =
      "free_var %w: Tensor[(256, 256), float32];"
      "def @main(%x: Tensor[(n, 256), float32]) { nn.dense(%x, %w) }";
  const std::vector<float> values(256 * 256, 1.0f);
  const int64_t shape[] = {256, 256};
  const rvm_named_tensor weight = {"w", {2, 32, 1}, 2, shape, values.data()};
  rvm_compile_options options = {.struct_size = sizeof(options), .opt_level = 2};
  options.weights = &weight;
  options.weight_count = 1;
  rvm_quantize_options quantize = {.struct_size = sizeof(quantize)};
  quantize.time = time;
  Compilation result(rvm_quantize("a.relay", kProduct, sizeof(kProduct) - 1, &options, &quantize));
  EXPECT_STREQ(rvm_compilation_message(result.get()), "");
  return rvm_compilation_report(result.get());
}

TEST(QuantizeTest, OperatorsWhoseTimeFailsAreNotMeasured) {
  auto measures = [](void*, const rvm_program_bytes*, size_t count, const int64_t*, const rvm_named_tensor*,
                     double* nanoseconds) {
    for (size_t i = 0; i < count; ++i) nanoseconds[i] = 5;
    return 0;
  };
  auto fails = [](void*, const rvm_program_bytes*, size_t, const int64_t*, const rvm_named_tensor*, double*) {
    return 1;
  };
  EXPECT_NE(QuantizeReport(measures).find("\"ns_before\""), std::string::npos);
  const std::string report = QuantizeReport(fails);
  EXPECT_NE(report.find("\"reason\": \"\""), std::string::npos) << report;
  EXPECT_EQ(report.find("\"ns_before\""), std::string::npos) << report;
}

TEST(ImportTest, Formats) {
  auto message = [](rvm_compilation* imported) {
    return std::string(rvm_compilation_message(Compilation(imported).get()));
  };
  EXPECT_EQ(
      message(rvm_import("caffe", "x", 1, nullptr)),
      "error: saw the format `caffe`; expected onnx, torch, tflite, stablehlo, keras, darknet, mxnet, tensorflow, "
      "gguf or transformers\n");
  EXPECT_EQ(message(rvm_import(nullptr, "x", 1, nullptr)),
            "error: saw the format NULL; expected onnx, torch, tflite, stablehlo, keras, darknet, mxnet, tensorflow, "
            "gguf or transformers\n");
  EXPECT_EQ(message(rvm_import("gguf", "x", 1, nullptr)), "error: saw a file that begins with `x`; expected GGUF\n");
  EXPECT_EQ(message(rvm_import("onnx", nullptr, 0, nullptr)),
            "error: saw NULL; expected the bytes or the path of a model\n");
  EXPECT_EQ(message(rvm_import_file(nullptr, "model.bin", nullptr)),
            "error: `model.bin` is no model; expected an .onnx, .pt2, .pt, .torchscript, .tflite, .mlirbc, .stablehlo, "
            ".keras, .h5, .cfg, -symbol.json, .pb, .gguf or "
            "config.json file\n");
  for (const char* format : {"onnx", "torch", "tflite", "stablehlo", "darknet", "mxnet", "tensorflow"}) {
    std::string said = message(rvm_import_file(format, "/nowhere/model.bin", nullptr));
    EXPECT_TRUE(said.find("/nowhere/model.bin") != std::string::npos) << said;
    EXPECT_EQ(rvm_compilation_text(Compilation(rvm_import(format, "x", 1, nullptr)).get()), nullptr);
  }
}

TEST(ImportTest, WeightsOfTheirOwn) {
  const std::string config = "[net]\ninputs=1\n[connected]\noutput=1\nactivation=linear\n";
  // A header, a bias and a weight.
  const float weights[] = {0, 0, 0, 0, 5, 3};
  rvm_import_options options = {.struct_size = sizeof(options), .weights = weights, .weights_size = sizeof(weights)};
  Compilation imported(rvm_import("darknet", config.data(), config.size(), &options));
  EXPECT_STREQ(rvm_compilation_message(imported.get()), "");
  ASSERT_NE(rvm_compilation_text(imported.get()), nullptr);
  Compilation other(rvm_import("onnx", config.data(), config.size(), &options));
  EXPECT_STREQ(rvm_compilation_message(other.get()),
               "error: `weights`: a model of the format onnx has its weights in it\n");
}

TEST(ImportTest, Signatures) {
  auto message = [](const char* format, const char* const* signatures) {
    rvm_import_options options = {.struct_size = sizeof(options), .signatures = signatures, .signature_count = 1};
    // The version of a SavedModel, and a graph that has the signature `f`, of no inputs and outputs.
    const std::string_view model("\x08\x01\x12\x09\x12\x00\x2a\x05\x0a\x01\x66\x12\x00", 13);
    Compilation imported(rvm_import(format, model.data(), model.size(), &options));
    return std::string(rvm_compilation_message(imported.get()));
  };
  const char* const other = "g";
  const char* const null = nullptr;
  EXPECT_EQ(message("onnx", &other),
            "error: signature `g`: models of the format onnx have no signatures to choose from\n");
  EXPECT_EQ(message("tensorflow", &other), "error: the SavedModel has no signature `g`; it has the signature `f`\n");
  EXPECT_EQ(message("tensorflow", &null), "error: `signatures`: saw NULL; expected names of signatures\n");
  EXPECT_EQ(message("tensorflow", nullptr), "error: `signatures`: saw NULL; expected names of signatures\n");
}

TEST(ImportTest, NullNamesOfShapes) {
  const rvm_named_shape shape = {nullptr, "1,n"};
  rvm_import_options options = {.struct_size = sizeof(options), .shapes = &shape, .shape_count = 1};
  Compilation imported(rvm_import_onnx("x", 1, &options));
  EXPECT_EQ(rvm_compilation_text(imported.get()), nullptr);
  EXPECT_STREQ(rvm_compilation_message(imported.get()),
               "error: `shapes`: saw NULL; expected names of inputs and extents such as \"1,n,80\"\n");
}

}  // namespace
