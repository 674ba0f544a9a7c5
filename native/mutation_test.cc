// Plants bugs into the machine code of vm/testdata: a payment, a count of references, a budget, a check that is
// forgotten. The comparison with bytecode must see each one that runs, but for the listed ones, which change nothing.
//
// RELAYVM_ALL_MUTATIONS=1 plants every bug, not a sample of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/long_tests.h"
#include "kernels/abi/machine_abi.h"
#include "kernels/codegen/kernel_compiler.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "native/testing.h"
#include "serialization/assembler.h"
#include "serialization/isa/isa.h"
#include "vm/machine.h"
#include "vm/values/value_text.h"

namespace rvm::native {
namespace {

using llvm::Instruction;

bool IsCallOf(const Instruction& i, llvm::StringRef name) {
  auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  return call != nullptr && call->getCalledFunction() != nullptr && call->getCalledFunction()->getName() == name;
}

// Returns the value that `i` stores; null if it is no store.
const llvm::Value* Stored(const Instruction& i) {
  auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
  return store == nullptr ? nullptr : store->getValueOperand();
}

// Returns whether `i` stores a count of references that it added `change` to.
bool IsCount(const Instruction& i, bool is_up) {
  using namespace llvm::PatternMatch;
  const llvm::Value* value = Stored(i);
  if (value == nullptr || !value->getType()->isIntegerTy(32)) return false;
  return is_up ? match(value, m_Add(m_Value(), m_One())) : match(value, m_Sub(m_Value(), m_One()));
}

// Returns whether `i` stores the budget that it has paid from.
bool IsPayment(const Instruction& i) {
  using namespace llvm::PatternMatch;
  const llvm::Value* value = Stored(i);
  return value != nullptr && value->getType()->isIntegerTy(64) &&
         llvm::isa<llvm::AllocaInst>(llvm::cast<llvm::StoreInst>(i).getPointerOperand()) &&
         match(value, m_Sub(m_Load(m_Value()), m_One()));
}

bool IsHeader(const Instruction& i) {
  const llvm::Value* value = Stored(i);
  auto* header = value == nullptr ? nullptr : llvm::dyn_cast<llvm::ConstantInt>(value);
  return header != nullptr && header->getBitWidth() == 64 && (header->getZExtValue() & 0xffffffff) == 1 &&
         header->getZExtValue() >> 48 != 0;
}

// Returns the branch to the block of `i`, which ends the run.
llvm::BranchInst* GuardOf(const Instruction& i) {
  const llvm::BasicBlock* before = i.getParent()->getSinglePredecessor();
  auto* branch = before == nullptr ? nullptr : llvm::dyn_cast<llvm::BranchInst>(before->getTerminator());
  return branch != nullptr && branch->isConditional() ? const_cast<llvm::BranchInst*>(branch) : nullptr;
}

struct Bug {
  const char* name;
  bool (*is_site)(const Instruction& i);
  void (*plant)(Instruction& i);
};

void Erase(Instruction& i) { i.eraseFromParent(); }

constexpr Bug kBugs[] = {
    {"a payment is forgotten", IsPayment,
     [](Instruction& i) { i.setOperand(0, llvm::cast<Instruction>(i.getOperand(0))->getOperand(0)); }},
    {"a poll is forgotten", [](const Instruction& i) { return IsCallOf(i, "rvm_poll"); },
     [](Instruction& i) {
       i.replaceAllUsesWith(llvm::ConstantInt::get(i.getType(), 1000));
       i.eraseFromParent();
     }},
    {"what a callee pays is forgotten",
     [](const Instruction& i) {
       const llvm::Value* value = Stored(i);
       return value != nullptr && llvm::isa<llvm::ExtractValueInst>(value) &&
              llvm::cast<llvm::ExtractValueInst>(value)->getIndices()[0] == 3;
     },
     Erase},
    {"a retain is forgotten", [](const Instruction& i) { return IsCount(i, true); }, Erase},
    {"a drop is forgotten", [](const Instruction& i) { return IsCount(i, false); }, Erase},
    {"the last drop is forgotten", [](const Instruction& i) { return IsCallOf(i, "rvm_free_last"); }, Erase},
    {"shared fields are not retained", [](const Instruction& i) { return IsCallOf(i, "rvm_unpack_shared"); }, Erase},
    {"a new cell has two owners", IsHeader,
     [](Instruction& i) {
       uint64_t header = llvm::cast<llvm::ConstantInt>(i.getOperand(0))->getZExtValue();
       i.setOperand(0, llvm::ConstantInt::get(i.getOperand(0)->getType(), header + 1));
     }},
    {"an error is missed", [](const Instruction& i) { return IsCallOf(i, "rvm_stop") && GuardOf(i) != nullptr; },
     [](Instruction& i) {
       llvm::BranchInst* guard = GuardOf(i);
       bool is_taken = guard->getSuccessor(0) == i.getParent();
       guard->setCondition(llvm::ConstantInt::getBool(i.getContext(), !is_taken));
     }},
};

// A bug that changes no run of these programs.
struct Equivalent {
  const char* bug;
  const char* place;
};

constexpr Equivalent kEquivalents[] = {
    // The payment is the last one of each run: nobody gives the program a function of the host.
    {"a payment is forgotten", "control.rvmasm call_host 0"},
    // The callee is a closure that pays for nothing.
    {"what a callee pays is forgotten", "cells.rvmasm call_closure 0"},
    {"what a callee pays is forgotten", "cells.rvmasm keep_captured 0"},
    {"what a callee pays is forgotten", "cells.rvmasm closures_later 1"},
    {"what a callee pays is forgotten", "cells.rvmasm closures_later 2"},
};

bool IsEquivalent(const Bug& bug, const std::string& place) {
  return std::any_of(std::begin(kEquivalents), std::end(kEquivalents),
                     [&](const Equivalent& e) { return std::string(e.bug) == bug.name && place == e.place; });
}

struct Case {
  std::string entry;
  std::vector<rvm::Value> args;
};

// Adds an entry that runs the entry `name` twice, on the same arguments. The second call sees what a bug of the first
// one has left: a wrong budget, a block that was freed twice.
void AddRepetition(Executable& executable, const std::string& name) {
  const Entry& entry = *executable.FindEntry(name);
  const FunctionDesc& function = executable.functions[entry.function.value];
  auto is_pointer = [&](TypeId type) { return executable.types[type.value].kind != TypeDescKind::kScalar; };
  FunctionDesc twice = {.name = name + " again", .num_params = function.num_params, .result = function.result};
  twice.registers.assign(function.registers.begin(), function.registers.begin() + function.num_params);
  auto add = [&](TypeId type) {
    twice.registers.push_back({type});
    return static_cast<uint16_t>(twice.registers.size() - 1);
  };
  std::vector<uint16_t> params, copies;
  for (uint16_t i = 0; i < function.num_params; ++i) {
    params.push_back(i);
    TypeId type = function.registers[i].type;
    copies.push_back(is_pointer(type) ? add(type) : i);
    if (copies[i] != i) twice.code.insert(twice.code.end(), {static_cast<uint16_t>(Opcode::kRetain), copies[i], i});
  }
  uint16_t result = add(function.result);
  auto call = [&](const std::vector<uint16_t>& args) {
    uint32_t callee = entry.function.value;
    twice.code.insert(twice.code.end(), {static_cast<uint16_t>(Opcode::kCall), result, static_cast<uint16_t>(callee),
                                         static_cast<uint16_t>(callee >> 16), static_cast<uint16_t>(args.size())});
    twice.code.insert(twice.code.end(), args.begin(), args.end());
  };
  call(copies);
  if (is_pointer(function.result)) {
    twice.code.insert(twice.code.end(), {static_cast<uint16_t>(Opcode::kDrop), result});
  }
  call(params);
  twice.code.insert(twice.code.end(), {static_cast<uint16_t>(Opcode::kReturn), result});
  Entry added = {twice.name, FunctionId(static_cast<uint32_t>(executable.functions.size())), entry.param_names};
  executable.functions.push_back(std::move(twice));
  executable.entries.push_back(std::move(added));
}

constexpr int64_t kSmallFuel = 30, kFuel = 1'000'000;

class Subject {
 public:
  explicit Subject(const std::string& path) : name_(path.substr(path.rfind('/') + 1)) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    Executable executable = *Assemble(text.str());
    functions_ = executable.functions.size();
    std::vector<std::string> entries;
    for (const Entry& entry : executable.entries) entries.push_back(entry.name);
    for (const std::string& entry : entries) AddRepetition(executable, entry);
    auto verified = Verify(std::move(executable));
    RVM_CHECK(verified.ok(), std::string(verified.status().message()));
    executable_ = *std::move(verified);
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("; run: ") && !line.starts_with("; fails: ")) continue;
      size_t begin = line.find(": ") + 2, open = line.find('(', begin), close = line.rfind(')', line.find(" => "));
      Case added{line.substr(begin, open - begin), {}};
      const FunctionDesc& function = (*executable_)->functions[(*executable_)->FindEntry(added.entry)->function.value];
      std::vector<TypeId> types;
      for (unsigned i = 0; i < function.num_params; ++i) types.push_back(function.registers[i].type);
      added.args = *vm::ParseValueTexts(**executable_, types, line.substr(open + 1, close - open - 1));
      cases_.push_back({added.entry + " again", added.args});
      cases_.push_back(std::move(added));
    }
  }

  size_t cases() const { return cases_.size(); }

  // Returns the places of SitesOf.
  std::vector<std::string> PlacesOf(const Bug& bug) const {
    std::vector<std::string> places;
    auto compiled = Compile([&](llvm::Module& module) {
      for (Site& site : SitesOf(bug, module)) places.push_back(std::move(site.place));
    });
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return places;
  }

  // Returns whether machine code with `change` runs as the bytecode does; not if it crashes.
  bool IsRight(const std::function<void(llvm::Module& module)>& change) const {
    return IsTrueInAProcess([&] { return Agrees(change); });
  }

  struct Site {
    Instruction* instruction;
    // For people: the file, the function, and the number of the site among those of the bug in the function.
    std::string place;
  };
  // Returns the sites of a bug in the functions of the file, without those that AddRepetition made.
  std::vector<Site> SitesOf(const Bug& bug, llvm::Module& module) const {
    std::vector<Site> sites;
    for (size_t f = 0; f < functions_; ++f) {
      size_t number = 0;
      for (llvm::BasicBlock& block : *module.getFunction(absl::StrCat(RVM_FUNCTION_SYMBOL, f))) {
        for (Instruction& i : block) {
          if (!bug.is_site(i)) continue;
          sites.push_back({&i, absl::StrCat(name_, " ", (*executable_)->functions[f].name, " ", number++)});
        }
      }
    }
    return sites;
  }

 private:
  absl::StatusOr<CompiledControl> Compile(const std::function<void(llvm::Module& module)>& change) const {
    return CompileChangedControl(*executable_, *codegen::ParseHostTarget("host"), change);
  }

  bool Agrees(const std::function<void(llvm::Module& module)>& change) const {
    auto control = Compile(change);
    if (!control.ok()) return false;
    auto program = *vm::Program::LinkWithKernels(executable_, {}, nullptr, nullptr, &control->code);
    for (const Case& each : cases_) {
      // New ones, whose peak is that of this call.
      auto bytecode = *vm::Machine::Create(program, {.runs_bytecode = true});
      auto native = *vm::Machine::Create(program, {});
      for (int64_t fuel = 0; fuel <= kFuel; fuel = fuel == kSmallFuel ? kFuel : fuel + 1) {
        auto expected = bytecode->Invoke(each.entry, each.args, {.fuel = fuel});
        auto seen = native->Invoke(each.entry, each.args, {.fuel = fuel});
        if (seen.status() != expected.status()) return false;
        if (seen.ok() && seen->ToString() != expected->ToString()) return false;
        vm::MachineStats a = bytecode->stats(), b = native->stats();
        if (a.allocations != b.allocations || a.leaked_objects != b.leaked_objects || a.peak_bytes != b.peak_bytes)
          return false;
      }
    }
    return true;
  }

  std::string name_;
  size_t functions_ = 0;  // of the file
  std::shared_ptr<const VerifiedExecutable> executable_;
  std::vector<Case> cases_;
};

TEST(Mutations, EveryBugIsSeen) {
  const size_t most = LongOr<size_t>(SIZE_MAX, 2);  // of one kind and file
  size_t all_planted = 0, all_seen = 0;
  std::vector<Subject> subjects;
  for (const char* file : {"vm/testdata/cells.rvmasm", "vm/testdata/control.rvmasm"}) {
    subjects.emplace_back(file);
    ASSERT_GT(subjects.back().cases(), 5u) << file;
    ASSERT_TRUE(subjects.back().IsRight([](llvm::Module&) {})) << file;
  }
  for (const Bug& bug : kBugs) {
    size_t planted = 0, seen = 0;
    for (const Subject& subject : subjects) {
      std::vector<std::string> places = subject.PlacesOf(bug);
      for (size_t n = 0; n < places.size(); n += std::max<size_t>(1, places.size() / most)) {
        bool is_run = !subject.IsRight([&](llvm::Module& module) {
          llvm::IRBuilder<> b(subject.SitesOf(bug, module)[n].instruction);
          b.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
        });
        if (!is_run) continue;
        ++planted;
        bool is_seen =
            !subject.IsRight([&](llvm::Module& module) { bug.plant(*subject.SitesOf(bug, module)[n].instruction); });
        EXPECT_EQ(is_seen, !IsEquivalent(bug, places[n])) << bug.name << ": " << places[n];
        seen += is_seen ? 1 : 0;
      }
    }
    EXPECT_GT(seen, 0u) << bug.name << ": " << planted << " planted";
    std::printf("%s: %zu of %zu seen\n", bug.name, seen, planted);
    all_planted += planted;
    all_seen += seen;
  }
  EXPECT_GT(all_planted, LongOr(30u, 20u));
  std::printf("%zu of %zu seen\n", all_seen, all_planted);
}

}  // namespace
}  // namespace rvm::native
