#include "compiler/bytecode/program_tables.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/fused_function.h"
#include "compiler/target/device_kind.h"
#include "kernels/schedule/schedule.h"

namespace rvm::bytecode {
namespace {

int64_t NumOperators(const ir::Function& primitive) {
  const auto* let = ir::DynCast<ir::Let>(primitive.body);
  int64_t count = let == nullptr ? 1 : 0;  // a body without lets is one call
  for (; let != nullptr; let = ir::DynCast<ir::Let>(let->body)) count += ir::OpCallee(let->value) != nullptr ? 1 : 0;
  return count;
}

}  // namespace

void ProgramTables::AddModule(const ir::Module& module) {
  for (const ir::GlobalFunction& global : module.functions) globals_[global.name] = &global;
}

// Signatures stand in the function table from the first mention, so calls can be typed
// before the callee's code exists.
FunctionId ProgramTables::Declare(PendingFunction pending) {
  FunctionId id(static_cast<uint32_t>(program_.executable.functions.size()));
  pending.id = id;
  FunctionDesc desc;
  desc.name = pending.name;
  if (pending.is_closure) desc.registers.push_back({pending.closure_type, false});
  for (const ir::Var* param : pending.function->params) desc.registers.push_back({types_.Lower(param->type), false});
  desc.num_params = static_cast<uint16_t>(desc.registers.size());
  desc.result = types_.Lower(ir::DynCast<ir::FuncType>(pending.function->type)->result);
  desc.returns_fields = pending.global != nullptr && pending.global->returns_fields;
  program_.executable.functions.push_back(std::move(desc));
  pending_.push_back(std::move(pending));
  return id;
}

FunctionId ProgramTables::GlobalByName(const std::string& name) {
  auto found = globals_.find(name);
  RVM_CHECK(found != globals_.end(), "a call names a function the module does not have");
  return GlobalFunction(*found->second);
}

bool ProgramTables::KeepsCaller(const std::string& name, const ir::Function& caller) const {
  auto is_prelude = [&](const ir::Function& function) {
    return function.span.valid() && sources_.name(function.span.source) == "<prelude>";
  };
  auto found = globals_.find(name);
  if (found == globals_.end() || !is_prelude(*found->second->function) || is_prelude(caller)) return false;
  const std::vector<ir::Var*>& params = found->second->function->params;
  return std::none_of(params.begin(), params.end(),
                      [](const ir::Var* param) { return param->type->type_kind == ir::TypeKind::kFunc; });
}

FunctionId ProgramTables::GlobalFunction(const ir::GlobalFunction& global) {
  auto found = function_ids_.find(global.name);
  if (found != function_ids_.end()) return found->second;
  PendingFunction pending;
  pending.name = std::string(global.ShownName());
  pending.global = &global;
  pending.function = global.function;
  FunctionId id = Declare(std::move(pending));
  function_ids_.emplace(global.name, id);
  return id;
}

LayoutId ProgramTables::ClosureLayout(PendingFunction pending) {
  std::vector<TypeId> captured;
  for (const ir::Var* var : pending.captures) captured.push_back(types_.Lower(var->type));
  pending.is_closure = true;
  pending.closure_type = types_.Lower(pending.function->type);
  // The layout names the function and the function's code names the layout.
  FunctionId id(static_cast<uint32_t>(program_.executable.functions.size()));
  LayoutId layout = types_.ClosureLayout(pending.closure_type, id, std::move(captured));
  pending.layout = layout;
  FunctionId declared = Declare(std::move(pending));
  RVM_CHECK(declared == id, "a closure's function got another id than its layout says");
  return layout;
}

ConstantId ProgramTables::Constant(const ir::Constant& constant) {
  const Literal& literal = constant.literal;
  std::vector<ConstantId>& same_data = constants_[literal.data()];
  for (ConstantId id : same_data) {
    const Literal& known = program_.executable.constants[id.value];
    if (known.dtype() != literal.dtype() || known.shape() != literal.shape()) continue;
    std::string& name = program_.constant_names[id.value];
    if (name.empty()) name = constant.name;
    return id;
  }
  ConstantId id(static_cast<uint32_t>(program_.executable.constants.size()));
  program_.executable.constants.push_back(literal);
  program_.constant_names.push_back(constant.name);
  same_data.push_back(id);
  return id;
}

void ProgramTables::AddKernel(KernelDesc desc, schedule::Schedule schedule, EmittedProgram::Origin origin) {
  desc.workspace = schedule.workspace;
  desc.symbol = absl::StrCat("rvm_k", program_.kernels.size(), "_", desc.name);
  program_.executable.kernels.push_back(std::move(desc));
  program_.kernels.push_back(std::move(schedule));
  program_.origins.push_back(std::move(origin));
}

KernelTensor ProgramTables::TypeOf(const te::Tensor& tensor) { return {tensor.dtype(), tensor.dims()}; }

KernelId ProgramTables::Arrangement(KernelId user, schedule::ArrangedInput arranged) {
  auto [it, added] = kernels_.try_emplace(absl::StrCat(te::Fingerprint(arranged.computation), "@panels"),
                                          KernelId(static_cast<uint32_t>(program_.kernels.size())));
  if (added) {
    KernelDesc desc;
    desc.name = "panels";
    desc.params = {TypeOf(arranged.computation.inputs[0])};
    desc.results = {TypeOf(arranged.computation.outputs[0])};
    AddKernel(std::move(desc), std::move(arranged.schedule), {program_.origins[user.value].primitive, ""});
  }
  return it->second;
}

void ProgramTables::AddBatchVariant(KernelId kernel, schedule::BatchPair& pair) {
  BatchVariant batch{kernel, {}, {}, pair.has_same_bits};
  for (schedule::ArrangedInput& arranged : pair.arranged) {
    auto param = static_cast<uint32_t>(arranged.input);
    batch.arranged.push_back({param, Arrangement(kernel, std::move(arranged))});
  }
  const KernelDesc& one = program_.executable.kernels[kernel.value];
  KernelDesc desc;
  desc.name = absl::StrCat(one.name, "_batch");
  desc.num_symbols = one.num_symbols + 1;
  for (const te::Tensor& input : pair.batched.computation.inputs) desc.params.push_back(TypeOf(input));
  for (const te::Tensor& output : pair.batched.computation.outputs) desc.results.push_back(TypeOf(output));
  for (const auto& [param, maker] : batch.arranged)
    desc.params[param] = program_.executable.kernels[maker.value].results[0];
  for (KernelDesc::Check check : one.checks) {
    check.a = pair.batched.Translated(check.a);
    check.b = pair.batched.Translated(check.b);
    desc.checks.push_back(std::move(check));
  }
  batch.variant = KernelId(static_cast<uint32_t>(program_.kernels.size()));
  if (pair.accumulator) {
    batch.accumulator = static_cast<uint32_t>(*pair.accumulator);
    desc.reuses.push_back({0, *batch.accumulator});
  }
  for (uint32_t i = 0; i < pair.shared.size(); ++i) {
    if (pair.shared[i]) batch.shared.push_back(i);
  }
  program_.executable.batch_variants.push_back(std::move(batch));
  AddKernel(std::move(desc), std::move(pair.variant), {program_.origins[kernel.value].primitive, ""});
}

absl::StatusOr<KernelUse> ProgramTables::Kernel(const ir::Function& primitive, std::vector<bool> constant_inputs) {
  RVM_ASSIGN_OR_RETURN(lowering::LoweredKernel lowered, lowering::LowerPrimitive(arena_, primitive));
  std::string key = te::Fingerprint(lowered.computation);
  for (bool constant : constant_inputs) key += constant ? 'k' : 'v';
  // Kernels of equal computation may still promise different checks.
  for (const KernelDesc::Check& check : lowered.desc.checks) {
    absl::StrAppend(&key, "|", check.a.ToString(), " ", static_cast<int>(check.relation), " ", check.b.ToString());
  }
  std::string device(target::DeviceOf(primitive.attrs));
  absl::StrAppend(&key, "@", device);
  auto [it, added] = kernels_.try_emplace(std::move(key), KernelId(static_cast<uint32_t>(program_.kernels.size())));
  if (added) {
    std::optional<schedule::BatchPair> pair;
    if (options_.batch && device.empty()) {
      RVM_ASSIGN_OR_RETURN(
          pair, schedule::ScheduleBatchPair(lowered.computation, constant_inputs, options_.target,
                                            {.always = options_.batch_all, .reuses_inputs = options_.reuse_inputs}));
    }
    schedule::Schedule schedule;
    if (pair) {
      schedule = std::move(pair->kernel);
    } else {
      RVM_ASSIGN_OR_RETURN(schedule, schedule::MakeSchedule(std::move(lowered.computation), std::move(constant_inputs),
                                                            options_.target));
    }
    if (options_.reuse_inputs) {
      for (const schedule::Reuse& reuse : schedule.reuses) {
        lowered.desc.reuses.push_back({static_cast<uint32_t>(reuse.output), static_cast<uint32_t>(reuse.input)});
      }
    }
    for (const schedule::Schedule::Update& update : schedule.updates) {
      lowered.desc.updates.push_back({static_cast<uint32_t>(update.output), static_cast<uint32_t>(update.input)});
    }
    AddKernel(std::move(lowered.desc), std::move(schedule), {&primitive, device});
    if (pair) AddBatchVariant(it->second, *pair);
  }
  program_.origins[it->second.value].num_operators += NumOperators(primitive);
  return KernelUse{it->second, lowered.is_static};
}

SourceLine ProgramTables::LineOf(ir::Span span) {
  span = sources_.Resolve(span);
  if (!span.valid()) return {};
  auto [it, added] = files_.try_emplace(span.source, static_cast<uint32_t>(program_.executable.files.size()));
  if (added) program_.executable.files.emplace_back(sources_.name(span.source));
  diagnostics::SourceMap::Position position = sources_.Locate(span.source, span.begin);
  return {0, it->second, position.line, position.column};
}

bool ProgramTables::TakePending(PendingFunction& out) {
  if (pending_.empty()) return false;
  out = std::move(pending_.front());
  pending_.pop_front();
  return true;
}

}  // namespace rvm::bytecode
