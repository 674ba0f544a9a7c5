#include <cstdint>
#include <string>
#include <utility>

#include "base/json_writer.h"
#include "compiler/driver/quantize.h"

namespace rvm::driver {

std::string QuantizeJson(const QuantizedProgram& program, const QuantizeRequest& request) {
  JsonWriter json;
  json.BeginObject().Field("scheme", quantize::RowOf(request.scheme).name);
  json.Field("bytes_before", program.bytes_before).Field("bytes_after", program.bytes_after);
  if (program.whole) {
    json.Key("error").Exact(program.whole->error).Field("calls", program.whole->calls);
    json.Field("ns_before", program.whole->ns_before).Field("ns_after", program.whole->ns_after);
  }
  json.Key("sites").BeginArray();
  for (const SiteReport& site : program.sites) {
    json.BeginObject().Field("name", site.name).Field("function", site.function).Field("kind", site.kind);
    json.Key("weight").BeginArray();
    for (int64_t extent : site.weight) json.Int(extent);
    json.EndArray();
    json.Field("scheme", quantize::RowOf(site.scheme).name).Field("reason", site.reason);
    json.Key("weight_error").Exact(site.weight_error);
    json.Field("bytes_before", site.bytes_before).Field("bytes_after", site.bytes_after);
    if (site.ns_before && site.ns_after) json.Field("ns_before", *site.ns_before).Field("ns_after", *site.ns_after);
    if (site.activations) {
      json.Field("calls", site.activations->calls()).Key("least").Exact(site.activations->least());
      json.Key("greatest").Exact(site.activations->greatest()).Key("range").Exact(site.range);
      json.Key("share_beyond").Exact(site.range > 0 ? site.activations->ShareBeyond(site.range) : 0.0);
    }
    if (site.error) json.Key("error").Exact(*site.error);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return std::move(json).Take();
}

}  // namespace rvm::driver
