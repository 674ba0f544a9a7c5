// The backend behind a server of models that the test plays (testing/fake_server.h). tests/triton_test.py runs it in
// the real one.
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/relayvm/relayvm_compiler.h"
#include "integrations/triton/testing/fake_server.h"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kProgram = R"(
type Shape { Circle(float32), Square(float32, float32) }
def @main(%x: Tensor[(n, 2), float32], %scale: float32, result_names=["scaled", "largest"])
    -> (Tensor[(n, 2), float32], float32) { (%x * %scale, max(%x)) }
def @lists(%words: List[int32], %rows: List[Tensor[(3), float64]]) {
  (@map(fn (%w: int32) { %w * 2 }, %words), @rev(%rows))
}
def @flags(%flag: bool, %bytes: Tensor[(2), uint8], %half: Tensor[(2), bfloat16]) { (%flag, %bytes, %half) }
def @shape(%s: Shape) -> float32 { match (%s) { Circle(%r) => %r, Square(%a, _) => %a } }
def @forever(%n: int32) -> int32 { @forever(%n + 1) }
def @third(%l: List[int32]) -> int32 { @nth(%l, 2) }
def @rows(%x: Tensor[(n, 2), float32], %y: Tensor[(n), float32]) { (sum(%x, axis=1), %y) }
)";

// Each step needs the one before, and the program looks at it: lanes wait for each other's products.
constexpr std::string_view kDecoder = R"(
def @write(%state: Tensor[(1, 128), float32], %left: int32) -> int32 {
  let %next = nn.dense(%state, full(0.0078125f, shape=[128, 128]));
  if (%left == 0) { 0 } else { if (max(%next) > 1000f) { %left } else { @write(%next, %left - 1) } }
}
def @main(%first: float32, %steps: int32) -> int32 {
  @write(full(%first, shape=[1, 128], dtype="float32"), %steps)
}
)";

// Compiles a program to the file of version 1 of the model in a new folder; returns the folder.
std::string MakeModel(std::string_view text, std::vector<const char*> entries, bool batch = false) {
  static int count = 0;
  std::string folder = testing::TempDir() + "/model" + std::to_string(count++);
  mkdir(folder.c_str(), 0755);
  mkdir((folder + "/1").c_str(), 0755);
  rvm_compile_options options = {.struct_size = sizeof(options), .opt_level = 2};
  options.target = "portable";
  options.entries = entries.data();
  options.entry_count = entries.size();
  options.batch = batch;
  rvm_compilation* compilation = rvm_compile("model.relay", text.data(), text.size(), &options);
  EXPECT_STREQ(rvm_compilation_message(compilation), "");
  size_t size = 0;
  const auto* bytes = static_cast<const char*>(rvm_compilation_bytes(compilation, &size));
  std::ofstream(folder + "/1/model.rvm", std::ios::binary).write(bytes, static_cast<std::streamsize>(size));
  rvm_compilation_free(compilation);
  return folder;
}

const std::string& TestModel() {
  static const auto* const kFolder =
      new std::string(MakeModel(kProgram, {"main", "lists", "flags", "shape", "forever", "third", "rows"}));
  return *kFolder;
}

const std::string& DecoderModel() {
  static const auto* const kFolder = new std::string(MakeModel(kDecoder, {"main"}, /*batch=*/true));
  return *kFolder;
}

std::string Message(TRITONSERVER_Error* error) {
  if (error == nullptr) return "";
  std::string message = std::move(error->message);
  delete error;
  return message;
}

// Returns the configuration of a model whose folder has only `parameters`, by name and value.
std::string Config(std::vector<std::pair<std::string, std::string>> parameters, std::string rest = "") {
  std::string text = R"({"name": "m", "max_batch_size": 0, "input": [], "output": [], "parameters": {)";
  for (size_t i = 0; i < parameters.size(); ++i) {
    text += (i > 0 ? ", \"" : "\"") + parameters[i].first + R"(": {"string_value": ")" + parameters[i].second + "\"}";
  }
  return text + "}" + rest + "}";
}

// A model with one instance, finalized at the end.
class Served {
 public:
  Served(const std::string& folder, const std::string& config) {
    model_.folder = folder;
    model_.config = config;
    error_ = Message(TRITONBACKEND_ModelInitialize(&model_));
    if (error_.empty()) error_ = Message(TRITONBACKEND_ModelInstanceInitialize(&instance_));
  }
  ~Served() {
    EXPECT_EQ(Message(TRITONBACKEND_ModelInstanceFinalize(&instance_)), "");
    EXPECT_EQ(Message(TRITONBACKEND_ModelFinalize(&model_)), "");
  }
  const std::string& error() const { return error_; }
  const std::string& config() const { return model_.config; }
  void Execute(std::vector<TRITONBACKEND_Request*> requests) {
    EXPECT_EQ(Message(TRITONBACKEND_ModelInstanceExecute(&instance_, requests.data(), requests.size())), "");
  }
  // Executes a request and waits for its answer.
  TRITONBACKEND_Request& Answer(TRITONBACKEND_Request& request) {
    Execute({&request});
    EXPECT_TRUE(request.Wait());
    EXPECT_EQ(request.responses, 1);
    EXPECT_EQ(request.releases, 1);
    EXPECT_EQ(request.statistics, 1);
    return request;
  }

 private:
  TRITONBACKEND_Model model_;
  TRITONBACKEND_ModelInstance instance_{&model_};
  std::string error_;
};

template <typename T>
TRITONBACKEND_Input Input(DataType type, std::vector<int64_t> shape, const std::vector<T>& elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  if (!elements.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return {type, std::move(shape), {bytes}};
}
TRITONBACKEND_Input Floats(std::vector<int64_t> shape, const std::vector<float>& elements) {
  return Input(DataType::kFloat32, std::move(shape), elements);
}
TRITONBACKEND_Input Ints(std::vector<int64_t> shape, const std::vector<int32_t>& elements) {
  return Input(DataType::kInt32, std::move(shape), elements);
}

template <typename T>
std::vector<T> Elements(const TRITONBACKEND_Output& output) {
  std::vector<T> elements(output.data.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), output.data.data(), output.data.size());
  return elements;
}

std::string TensorsText(const std::string& config, std::string_view key) {
  std::string text;
  absl::StatusOr<JsonValue> json = ParseJson(config);
  for (const JsonValue& tensor : *json->Find(key)->AsArray()) {
    text += *tensor.Find("name")->AsString() + " " + *tensor.Find("data_type")->AsString() + " [";
    for (const JsonValue& dim : *tensor.Find("dims")->AsArray()) text += " " + std::to_string(*dim.AsInt());
    text += tensor.Find("reshape") != nullptr ? " ] reshaped; " : " ]; ";
  }
  return text;
}

TEST(BackendTest, Starts) {
  EXPECT_EQ(TRITONBACKEND_Initialize(nullptr), nullptr);
  TRITONBACKEND_BackendAttribute attribute;
  EXPECT_EQ(TRITONBACKEND_GetBackendAttribute(nullptr, &attribute), nullptr);
  EXPECT_THAT(attribute.kinds, ElementsAre(InstanceKind::kCpu));
}

TEST(ConfigTest, TensorsAreThoseOfTheProgram) {
  Served main(TestModel(), Config({}));
  ASSERT_EQ(main.error(), "");
  EXPECT_EQ(TensorsText(main.config(), "input"), "x TYPE_FP32 [ -1 2 ]; scale TYPE_FP32 [ 1 ]; ");
  EXPECT_EQ(TensorsText(main.config(), "output"), "scaled TYPE_FP32 [ -1 2 ]; largest TYPE_FP32 [ 1 ]; ");
  Served lists(TestModel(), Config({{"entry", "lists"}}));
  EXPECT_EQ(TensorsText(lists.config(), "input"), "words TYPE_INT32 [ -1 ]; rows TYPE_FP64 [ -1 3 ]; ");
  EXPECT_EQ(TensorsText(lists.config(), "output"), "result1 TYPE_INT32 [ -1 ]; result2 TYPE_FP64 [ -1 3 ]; ");
  Served flags(TestModel(), Config({{"entry", "flags"}}));
  EXPECT_EQ(TensorsText(flags.config(), "input"),
            "flag TYPE_BOOL [ 1 ]; bytes TYPE_UINT8 [ 2 ]; half TYPE_BF16 [ 2 ]; ");
}

TEST(ConfigTest, OtherMembersStay) {
  Served model(TestModel(), Config({}, R"(, "rate": 0.00001, "share": 0.1, "least": -1.5e-300, "count": 7)"));
  ASSERT_EQ(model.error(), "");
  absl::StatusOr<JsonValue> json = ParseJson(model.config());
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json->Find("rate")->AsDouble(), 0.00001);
  EXPECT_EQ(*json->Find("share")->AsDouble(), 0.1);
  EXPECT_EQ(*json->Find("least")->AsDouble(), -1.5e-300);
  EXPECT_EQ(*json->Find("count")->AsInt(), 7);
}

TEST(ConfigTest, ABatchIsTheFirstExtent) {
  std::string config = R"({"max_batch_size": 8, "parameters": {"entry": {"string_value": ")";
  Served rows(TestModel(), config + R"(rows"}}})");
  ASSERT_EQ(rows.error(), "");
  EXPECT_EQ(TensorsText(rows.config(), "input"), "x TYPE_FP32 [ 2 ]; y TYPE_FP32 [ 1 ] reshaped; ");
  for (std::string entry : {"main", "lists", "flags"}) {
    EXPECT_THAT(Served(TestModel(), config + entry + "\"}}}").error(), HasSubstr("has no extent for a batch")) << entry;
  }
}

TEST(ConfigTest, Mistakes) {
  auto error = [](std::vector<std::pair<std::string, std::string>> parameters) {
    return Served(TestModel(), Config(std::move(parameters))).error();
  };
  EXPECT_THAT(error({{"entry", "man"}}), HasSubstr("the program has no entry `man`; it has main, lists"));
  EXPECT_THAT(error({{"entry", "shape"}}), HasSubstr("parameter `s` has type `Shape`, which has no form"));
  EXPECT_THAT(error({{"lane", "2"}}), HasSubstr("parameter `lane` is unknown; expected device, entry"));
  EXPECT_THAT(error({{"lanes", "0"}}), HasSubstr("saw `0`; expected a number from 1 to 1024"));
  EXPECT_THAT(error({{"lanes", "1025"}}), HasSubstr("expected a number from 1 to 1024"));
  EXPECT_THAT(error({{"fuel", "many"}}), HasSubstr("saw `many`; expected a number"));
  for (std::string time : {"-1", "nan", "inf", "", "soon"}) {
    EXPECT_THAT(error({{"time_limit_ms", time}}), HasSubstr("expected a positive number of milliseconds")) << time;
  }
  EXPECT_THAT(error({{"trusted_keys", "relayvm-public-key 12"}}), HasSubstr("expected the line of a .pub file"));
  EXPECT_EQ(error({{"trusted_keys", "relayvm-public-key " + std::string(64, 'a')}, {"TRITON_OWN", "x"}}), "");
  TRITONBACKEND_Model missing;
  missing.folder = testing::TempDir() + "/none";
  missing.config = Config({});
  TRITONSERVER_Error* not_found = TRITONBACKEND_ModelInitialize(&missing);
  ASSERT_NE(not_found, nullptr);
  EXPECT_EQ(not_found->code, ErrorCode::kNotFound);
  EXPECT_THAT(Message(not_found), HasSubstr("none/1/model.rvm"));
}

TEST(ConfigTest, GivenTensorsAreChecked) {
  auto error = [](std::string inputs, std::string outputs) {
    return Served(TestModel(), R"({"input": [)" + inputs + R"(], "output": [)" + outputs + "]}").error();
  };
  std::string x = R"({"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 2]})";
  std::string scale = R"({"name": "scale", "data_type": "TYPE_FP32", "dims": [1]})";
  EXPECT_EQ(error(x + "," + scale, ""), "");
  EXPECT_EQ(error(x, ""),
            "the configuration has no input `scale`, which the program takes; expected all inputs, or none");
  EXPECT_EQ(error(scale + R"(,{"name": "x", "data_type": "TYPE_INT32"})", ""),
            "input `x` of the configuration: saw TYPE_INT32; expected TYPE_FP32");
  EXPECT_EQ(error("", R"({"name": "y", "data_type": "TYPE_FP32"})"),
            "output `y` of the configuration: the program's are scaled, largest");
}

TEST(ExecuteTest, RequestsOfAnyLength) {
  Served model(TestModel(), Config({}));
  for (int64_t rows : {1, 2, 100}) {
    std::vector<float> elements(2 * rows);
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
    TRITONBACKEND_Request request = {.inputs = {{"x", Floats({rows, 2}, elements)}, {"scale", Floats({1}, {3})}},
                                     .outputs = {"scaled", "largest"}};
    model.Answer(request);
    ASSERT_FALSE(request.error.has_value());
    EXPECT_THAT(request.response["scaled"].shape, ElementsAre(rows, 2));
    EXPECT_EQ(Elements<float>(request.response["scaled"]).back(), 3 * elements.back());
    EXPECT_THAT(request.response["largest"].shape, ElementsAre(1));
    EXPECT_THAT(Elements<float>(request.response["largest"]), ElementsAre(elements.back()));
  }
  TRITONBACKEND_Request one = {.inputs = {{"x", Floats({1, 2}, {1, 2})}, {"scale", Floats({}, {3})}},
                               .outputs = {"largest"}};
  model.Answer(one);
  EXPECT_EQ(one.response.size(), 1u);  // that the client wants
}

TEST(ExecuteTest, ListsAndOtherDtypes) {
  Served lists(TestModel(), Config({{"entry", "lists"}}));
  TRITONBACKEND_Request request = {.inputs = {{"words", Ints({3}, {1, 2, 3})},
                                              {"rows", Input<double>(DataType::kFloat64, {2, 3}, {1, 2, 3, 4, 5, 6})}},
                                   .outputs = {"result1", "result2"}};
  lists.Answer(request);
  EXPECT_THAT(Elements<int32_t>(request.response["result1"]), ElementsAre(2, 4, 6));
  EXPECT_THAT(request.response["result2"].shape, ElementsAre(2, 3));
  EXPECT_THAT(Elements<double>(request.response["result2"]), ElementsAre(4, 5, 6, 1, 2, 3));
  TRITONBACKEND_Request empty = {
      .inputs = {{"words", Ints({0}, {})}, {"rows", Input<double>(DataType::kFloat64, {0, 3}, {})}},
      .outputs = {"result1", "result2"}};
  empty.inputs["rows"].buffers.clear();
  lists.Answer(empty);
  EXPECT_THAT(empty.response["result1"].shape, ElementsAre(0));
  EXPECT_THAT(empty.response["result2"].shape, ElementsAre(0, 3));
  Served flags(TestModel(), Config({{"entry", "flags"}}));
  TRITONBACKEND_Request all = {.inputs = {{"flag", Input<uint8_t>(DataType::kBool, {1}, {1})},
                                          {"bytes", Input<uint8_t>(DataType::kUint8, {2}, {0, 255})},
                                          {"half", Input<uint16_t>(DataType::kBfloat16, {2}, {0x3fc0, 0xc000})}},
                               .outputs = {"result1", "result2", "result3"}};
  flags.Answer(all);
  EXPECT_THAT(Elements<uint8_t>(all.response["result2"]), ElementsAre(0, 255));
  EXPECT_EQ(all.response["result3"].type, DataType::kBfloat16);
  EXPECT_THAT(Elements<uint16_t>(all.response["result3"]), ElementsAre(0x3fc0, 0xc000));
}

TEST(ExecuteTest, BuffersInPiecesAndUnaligned) {
  Served model(TestModel(), Config({{"entry", "lists"}}));
  TRITONBACKEND_Input words = Ints({3}, {1, 2, 3});
  std::string bytes = words.buffers[0];
  words.buffers = {bytes.substr(0, 5), "", bytes.substr(5)};
  TRITONBACKEND_Request request = {
      .inputs = {{"words", words}, {"rows", Input<double>(DataType::kFloat64, {0, 3}, {})}}, .outputs = {"result1"}};
  EXPECT_THAT(Elements<int32_t>(model.Answer(request).response["result1"]), ElementsAre(2, 4, 6));
  words.buffers = {"x" + bytes};
  words.skipped = 1;
  TRITONBACKEND_Request unaligned = {.inputs = {{"words", words}, {"rows", request.inputs["rows"]}},
                                     .outputs = {"result1"}};
  EXPECT_THAT(Elements<int32_t>(model.Answer(unaligned).response["result1"]), ElementsAre(2, 4, 6));
  words.memory = MemoryType::kGpu;
  TRITONBACKEND_Request gpu = {.inputs = {{"words", words}, {"rows", request.inputs["rows"]}}, .outputs = {"result1"}};
  EXPECT_EQ(model.Answer(gpu).error->code, ErrorCode::kUnsupported);
}

TEST(ExecuteTest, MistakesOfClients) {
  Served model(TestModel(), Config({}));
  TRITONBACKEND_Input scale = Floats({1}, {2}), x = Floats({1, 2}, {1, 2}), bytes = x;
  bytes.buffers = {"abc"};
  struct Case {
    TRITONBACKEND_Input x, scale;
    std::string message;
  };
  for (const Case& wrong : std::vector<Case>{
           {Ints({1, 2}, {1, 2}), scale, "input `x`: saw datatype INT32; expected FP32"},
           {{DataType::kBytes, {1, 2}, {"ab"}}, scale, "saw datatype BYTES; expected FP32"},
           {Floats({2}, {1, 2}), scale, "input `x`: saw shape [2]; expected [-1, 2]"},
           {Floats({2, 1}, {1, 2}), scale, "argument 1 (`%x`) of `main`"},
           {bytes, scale, "input `x`: saw 3 bytes; expected 8 for shape [1, 2]"},
           {Floats({-1, 2}, {1, 2}), scale, "input `x`: saw shape [-1, 2]"},
           {Floats({int64_t{1} << 40, int64_t{1} << 40}, {1, 2}), scale, "input `x`: saw shape"},
           {x, Floats({2}, {1, 2}), "input `scale`: saw shape [2]; expected [1]"},
       }) {
    TRITONBACKEND_Request request = {.inputs = {{"x", wrong.x}, {"scale", wrong.scale}}, .outputs = {"scaled"}};
    model.Answer(request);
    ASSERT_TRUE(request.error.has_value()) << wrong.message;
    EXPECT_EQ(request.error->code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(request.error->message, HasSubstr(wrong.message));
  }
  TRITONBACKEND_Request missing = {.inputs = {{"x", x}}, .outputs = {"scaled"}};
  EXPECT_EQ(model.Answer(missing).error->code, ErrorCode::kInvalidArgument);
  TRITONBACKEND_Request right = {.inputs = {{"x", x}, {"scale", scale}}, .outputs = {"scaled"}};
  EXPECT_FALSE(model.Answer(right).error.has_value());
}

TEST(ExecuteTest, ErrorsOfRuns) {
  Served third(TestModel(), Config({{"entry", "third"}}));
  TRITONBACKEND_Request request = {.inputs = {{"l", Ints({1}, {1})}}, .outputs = {"result"}};
  third.Answer(request);
  EXPECT_EQ(request.error->code, ErrorCode::kInternal);
  EXPECT_THAT(request.error->message, HasSubstr("in `third` at model.relay:"));

  for (std::pair<std::string, std::string> limit :
       {std::pair<std::string, std::string>("fuel", "1000"), {"time_limit_ms", "30"}}) {
    Served forever(TestModel(), Config({{"entry", "forever"}, limit}));
    for (int i = 0; i < 4; ++i) {
      TRITONBACKEND_Request endless = {.inputs = {{"n", Ints({1}, {1})}}, .outputs = {"result"}};
      EXPECT_EQ(forever.Answer(endless).error->code, ErrorCode::kUnavailable) << limit.first;
    }
  }
}

TEST(ExecuteTest, AClientsTimeoutEndsItsRun) {
  for (std::string limit : {"60000", "20"}) {
    Served forever(TestModel(), Config({{"entry", "forever"}, {"time_limit_ms", limit}}));
    TRITONBACKEND_Request request = {
        .inputs = {{"n", Ints({1}, {1})}}, .outputs = {"result"}, .timeout_us = limit == "20" ? 60000000u : 20000u};
    auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(forever.Answer(request).error->code, ErrorCode::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  }
}

TEST(ExecuteTest, AClientThatGoesAwayEndsItsRun) {
  for (std::string lanes : {"1", "3"}) {
    Served model(TestModel(), Config({{"entry", "forever"}, {"lanes", lanes}}));
    // The watcher sleeps when the second one comes.
    for (int round = 0; round < 2; ++round) {
      TRITONBACKEND_Request running = {.inputs = {{"n", Ints({1}, {1})}}, .outputs = {"result"}};
      TRITONBACKEND_Request waiting = {.inputs = {{"n", Ints({1}, {1})}}, .outputs = {"result"}};
      std::thread client([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        waiting.is_cancelled = running.is_cancelled = true;
      });
      model.Execute({&running, &waiting});
      for (TRITONBACKEND_Request* request : {&running, &waiting}) {
        ASSERT_TRUE(request->Wait());
        EXPECT_EQ(request->error->code, ErrorCode::kCancelled);
        EXPECT_EQ(request->responses, 1);
        EXPECT_EQ(request->statistics, 1);
      }
      client.join();
      if (round == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    }
    TRITONBACKEND_Request before = {.inputs = {{"n", Ints({1}, {1})}}, .outputs = {"result"}, .is_cancelled = true};
    EXPECT_EQ(model.Answer(before).error->code, ErrorCode::kCancelled);
  }
}

TRITONBACKEND_Input Steps(int32_t steps) { return Ints({1}, {steps}); }

TEST(LanesTest, AProgramWithVariantsHasEight) {
  for (std::string lanes : {"", "8", "2", "1"}) {
    Served model(DecoderModel(),
                 Config(lanes.empty() ? std::vector<std::pair<std::string, std::string>>()
                                      : std::vector<std::pair<std::string, std::string>>{{"lanes", lanes}}));
    ASSERT_EQ(model.error(), "");
    TRITONBACKEND_Request endless = {.inputs = {{"first", Floats({1}, {1})}, {"steps", Steps(2000000000)}},
                                     .outputs = {"result"}};
    TRITONBACKEND_Request last = {.inputs = {{"first", Floats({1}, {1})}, {"steps", Steps(1)}}, .outputs = {"result"}};
    if (lanes == "1") {
      // One after another: the first ends only by its timeout.
      endless.timeout_us = 50000;
      model.Execute({&endless, &last});
      EXPECT_EQ(endless.error->code, ErrorCode::kUnavailable);
      EXPECT_THAT(Elements<int32_t>(last.response["result"]), ElementsAre(0));
      continue;
    }
    model.Execute({&endless});
    for (int32_t steps : {1, 5, 3, 2, 1, 4, 7, 6, 5, 4}) {
      TRITONBACKEND_Request request = {.inputs = {{"first", Floats({1}, {5000})}, {"steps", Steps(steps)}},
                                       .outputs = {"result"}};
      model.Answer(request);
      EXPECT_THAT(Elements<int32_t>(request.response["result"]), ElementsAre(steps)) << lanes;
    }
    EXPECT_EQ(endless.releases, 0);  // it has run beside them
    endless.is_cancelled = true;
    ASSERT_TRUE(endless.Wait());
    EXPECT_EQ(endless.error->code, ErrorCode::kCancelled);
  }
}

TEST(LanesTest, ManyRequestsFromTheServersThread) {
  Served model(DecoderModel(), Config({{"lanes", "4"}}));
  std::vector<std::unique_ptr<TRITONBACKEND_Request>> requests;
  for (int32_t i = 0; i < 100; ++i) {
    requests.push_back(std::make_unique<TRITONBACKEND_Request>());
    float first = i % 3 == 0 ? 5000 : 1;
    requests[i]->inputs = {{"first", Floats({1}, {first})}, {"steps", Steps(1 + i % 7)}};
    requests[i]->outputs = {"result"};
    if (i % 10 == 9) requests[i]->inputs.erase("first");
    model.Execute({requests[i].get()});
  }
  for (int32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(requests[i]->Wait());
    EXPECT_EQ(requests[i]->releases, 1);
    EXPECT_EQ(requests[i]->error.has_value(), i % 10 == 9);
    if (i % 10 == 9) continue;
    EXPECT_THAT(Elements<int32_t>(requests[i]->response["result"]), ElementsAre(i % 3 == 0 ? 1 + i % 7 : 0));
  }
}

// Lets one call of the server after another fail.
TEST(FailuresTest, EachRequestIsReleasedOnce) {
  int64_t call = 0;
  do {
    ASSERT_LT(++call, 200);
    TRITONBACKEND_Model model = {.folder = TestModel(), .config = Config({})};
    TRITONBACKEND_ModelInstance instance{&model};
    TRITONBACKEND_Request request = {.inputs = {{"x", Floats({1, 2}, {1, 2})}, {"scale", Floats({1}, {2})}},
                                     .outputs = {"scaled", "largest"}};
    TRITONBACKEND_Request* requests[] = {&request};
    FailCall(call);
    std::string error = Message(TRITONBACKEND_ModelInitialize(&model));
    if (error.empty()) error = Message(TRITONBACKEND_ModelInstanceInitialize(&instance));
    if (error.empty()) error = Message(TRITONBACKEND_ModelInstanceExecute(&instance, requests, 1));
    bool was_taken = error.empty() && instance.state != nullptr;
    if (was_taken) EXPECT_TRUE(request.Wait());
    bool failed = HasFailed();
    FailCall(0);
    std::string log = TakeLog();
    EXPECT_EQ(request.releases, was_taken ? 1 : 0) << call;
    if (failed) {
      // Somebody is told: the server, the client or the log.
      bool is_told = !error.empty() || request.error.has_value() || !log.empty();
      EXPECT_TRUE(is_told) << call;
    } else {
      EXPECT_EQ(request.response.size(), 2u);
    }
    EXPECT_EQ(Message(TRITONBACKEND_ModelInstanceFinalize(&instance)), "");
    EXPECT_EQ(Message(TRITONBACKEND_ModelFinalize(&model)), "");
    if (!failed) break;
  } while (true);
  EXPECT_GT(call, 30);
}

}  // namespace
}  // namespace rvm::triton
