// Any bytes as an exported program of PyTorch: a message, or a program that prints, and types or says why not.
//
// A zip archive has checksums, which mutations break: an input that is no archive is taken as the JSON of a program,
// and stands in an archive of one weight; or as the code of TorchScript if it begins with `class`, or as its pickle.
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/import/torch/import.h"
#include "tests/fuzz/check_imported.h"

namespace {

void AppendNumber(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

struct Writer {
  std::string out, directory;
  uint16_t count = 0;

  void Add(std::string_view name, std::string_view content) {
    uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    size_t offset = out.size();
    auto header = [&](std::string& to) {
      AppendNumber(to, 0, 2 + 2 + 2 + 2);  // flags, stored, time, date
      AppendNumber(to, crc, 4);
      AppendNumber(to, content.size(), 4);
      AppendNumber(to, content.size(), 4);
      AppendNumber(to, name.size(), 2);
      AppendNumber(to, 0, 2);
    };
    out += "PK\x03\x04";
    AppendNumber(out, 20, 2);
    header(out);
    out.append(name).append(content);
    directory += "PK\x01\x02";
    AppendNumber(directory, 20, 2);
    AppendNumber(directory, 20, 2);
    header(directory);
    AppendNumber(directory, 0, 2 + 2 + 2 + 4);
    AppendNumber(directory, offset, 4);
    directory.append(name);
    ++count;
  }

  std::string Finish() {
    size_t begin = out.size();
    out += directory;
    out += "PK\x05\x06";
    AppendNumber(out, 0, 4);
    AppendNumber(out, count, 2);
    AppendNumber(out, count, 2);
    AppendNumber(out, directory.size(), 4);
    AppendNumber(out, begin, 4);
    AppendNumber(out, 0, 2);
    return out;
  }
};

std::string ArchiveOf(std::string_view json) {
  constexpr std::string_view kConfig =
      R"({"config": {"w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, )"
      R"("sizes": [{"as_int": 4}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}], )"
      R"("storage_offset": {"as_int": 0}, "layout": 7}}}})";
  Writer writer;
  writer.Add("m/models/model.json", json);
  writer.Add("m/data/weights/model_weights_config.json", kConfig);
  writer.Add("m/data/weights/weight_0", std::string(64, '\0'));
  return writer.Finish();
}

std::string ScriptOf(std::string_view text) {
  bool is_code = text.starts_with("class");
  Writer writer;
  writer.Add("m/data.pkl", is_code ? std::string_view("\x80\x02"
                                                      "c__torch__\nM\n)\x81}b.")
                                   : text);
  writer.Add("m/code/__torch__.py", is_code ? text
                                            : "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n"
                                              "    return torch.add(x, self.w)\n");
  writer.Add("m/data/0", std::string(64, '\0'));
  return writer.Finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  std::string_view text(reinterpret_cast<const char*>(data), size);
  bool is_script = text.starts_with("class") || text.starts_with("\x80");
  std::string archive = text.starts_with("PK") ? std::string(text) : is_script ? ScriptOf(text) : ArchiveOf(text);
  importing::Bytes bytes(reinterpret_cast<const uint8_t*>(archive.data()), archive.size());
  torch::ImportOptions options;
  if (is_script) options.shapes["x"] = {"2", "3"};
  CheckImported(torch::Import({bytes, nullptr}, options));
  return 0;
}
