// Objects call what the loader provides: whatever LLVM makes of the kernels, at every level, for old and new CPUs.
#include "kernels/codegen/check_imports.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/long_tests.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/codegen/testing.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::Expr;
using te::UnaryOp;

te::Computation Elementwise(DataType dtype, int64_t n, const std::function<Expr(Expr)>& body) {
  te::Tensor x = te::Input(0, "x", dtype, {Dim(n)});
  te::Tensor y = te::ComputeTensor("y", dtype, {Dim(n)}, [&](std::span<const Expr> i) { return body(x(i)); });
  return {"f", {x}, {y}};
}

KernelRequest Request(const std::string& symbol, te::Computation computation, const HostTarget& target) {
  return {symbol, *schedule::MakeSchedule(std::move(computation), {}, ScheduleTarget(target))};
}

TEST(CheckImportsTest, NamesWhatTheLoaderLacks) {
  HostTarget host = *ParseHostTarget("x86-64");
  te::Computation sin = Elementwise(kFloat64, 5, [](Expr x) { return te::Unary(UnaryOp::kSin, x); });
  auto compiled = CompileKernels(host, {Request("f", sin, host)}, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(CheckImports(compiled->object).ok());
  std::string object(compiled->object.begin(), compiled->object.end());
  size_t name = object.find(std::string("\0sin", 5));
  ASSERT_NE(name, std::string::npos);
  object[name + 1] = 'z';
  absl::Status status = CheckImports(std::vector<uint8_t>(object.begin(), object.end()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("`zin`"), std::string::npos) << status;
  EXPECT_FALSE(CheckImports({}).ok());
}

// Expressions that LLVM replaces by calls of its own.
TEST(CheckImportsTest, LibraryCallsOfLlvm) {
  auto constant = [](Expr x, double value) { return te::FloatConst(x->dtype, value); };
  auto pow = [](Expr x, Expr y) { return te::Binary(BinaryOp::kPower, x, y); };
  std::vector<std::function<Expr(Expr)>> bodies = {
      [](Expr x) { return te::Unary(UnaryOp::kSin, x) + te::Unary(UnaryOp::kCos, x); },
  };
  for (double base : {2.0, 4.0, 10.0, 0.5, -1.0, 3.0}) {
    bodies.push_back([=](Expr x) { return pow(constant(x, base), x); });
    bodies.push_back([=](Expr x) { return pow(constant(x, base), te::Cast(x->dtype, te::Cast(kInt32, x))); });
    bodies.push_back([=](Expr x) { return pow(constant(x, base), te::Cast(x->dtype, te::Cast(kInt8, x))); });
    bodies.push_back([=](Expr x) { return pow(x, constant(x, base)); });
    bodies.push_back([=](Expr x) { return pow(x, constant(x, 1 / base)); });
    bodies.push_back([=](Expr x) { return pow(pow(constant(x, base), x), x); });
    bodies.push_back([=](Expr x) { return pow(te::Unary(UnaryOp::kExp, x), constant(x, base)); });
    bodies.push_back([=](Expr x) { return te::Unary(UnaryOp::kLog, pow(x, constant(x, base))); });
  }
  Sample sample(2);
  for (DataType dtype : {kFloat16, kFloat32, kFloat64}) {
    for (const char* name : {"x86-64", "x86-64-v4", "aarch64"}) {
      HostTarget target = *ParseHostTarget(name);
      std::vector<KernelRequest> requests;
      for (const auto& body : bodies) {
        requests.push_back(Request("f" + std::to_string(requests.size()), Elementwise(dtype, 100, body), target));
      }
      for (int level : {1, 2, 3}) {
        if (!sample.Takes()) continue;
        auto compiled = CompileKernels(target, requests, {.opt_level = level});
        EXPECT_TRUE(compiled.ok()) << dtype.ToString() << " -O" << level << " " << name << ": " << compiled.status();
      }
    }
  }
}

TEST(CheckImportsTest, Casts) {
  constexpr DataType kTypes[] = {kBool,   kInt8,    kUInt8,    kInt32,   kInt64,
                                 kUInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
  for (DataType from : kTypes) {
    for (const char* name : {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"}) {
      HostTarget target = *ParseHostTarget(name);
      std::vector<KernelRequest> requests;
      for (DataType to : kTypes) {
        te::Tensor x = te::Input(0, "x", from, {Dim(100)});
        te::Tensor y =
            te::ComputeTensor("y", to, {Dim(100)}, [&](std::span<const Expr> i) { return te::Cast(to, x(i)); });
        requests.push_back(Request("to_" + to.ToString(), {"f", {x}, {y}}, target));
      }
      auto compiled = CompileKernels(target, requests, {});
      EXPECT_TRUE(compiled.ok()) << from.ToString() << " " << name << ": " << compiled.status();
    }
  }
}

}  // namespace
}  // namespace rvm::codegen
