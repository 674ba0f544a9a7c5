// A server of models for tests: the functions of triton_api.h, on objects that a test makes and looks at.
#ifndef RVM_INTEGRATIONS_TRITON_TESTING_FAKE_SERVER_H_
#define RVM_INTEGRATIONS_TRITON_TESTING_FAKE_SERVER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "integrations/triton/triton_api.h"

namespace rvm::triton {

// Makes call `number` of a function that can fail the last one to fail, counted from 1 and from now on. 0: none.
void FailCall(int64_t number);
// Returns whether that call was made.
bool HasFailed();
// Returns what was logged since the last time.
std::string TakeLog();

}  // namespace rvm::triton

struct TRITONSERVER_Error {
  rvm::triton::ErrorCode code;
  std::string message;
};

struct TRITONSERVER_Message {
  std::string text;
};

struct TRITONBACKEND_Input {
  rvm::triton::DataType type;
  std::vector<int64_t> shape;
  std::vector<std::string> buffers;
  rvm::triton::MemoryType memory = rvm::triton::MemoryType::kCpu;
  size_t skipped = 0;  // bytes before those of each buffer
};

struct TRITONBACKEND_Output {
  rvm::triton::DataType type;
  std::vector<int64_t> shape;
  std::string data;
};

struct TRITONBACKEND_Request {
  std::map<std::string, TRITONBACKEND_Input> inputs;
  std::vector<std::string> outputs;  // that the client wants
  uint64_t timeout_us = 0;
  std::atomic<bool> is_cancelled = false;

  // Waits until the backend has released the request; returns whether it did so in time.
  bool Wait(double seconds = 20);

  // Results, by the backend.
  std::map<std::string, TRITONBACKEND_Output> response;
  std::optional<TRITONSERVER_Error> error;
  int responses = 0, releases = 0, statistics = 0;
  std::mutex mutex;
  std::condition_variable released;
};

struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  std::map<std::string, TRITONBACKEND_Output> outputs;
};

struct TRITONBACKEND_BackendAttribute {
  std::vector<rvm::triton::InstanceKind> kinds;
};

struct TRITONBACKEND_Model {
  std::string folder, config;
  bool completes = true;
  uint64_t version = 1;
  void* state = nullptr;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  void* state = nullptr;
};

#endif  // RVM_INTEGRATIONS_TRITON_TESTING_FAKE_SERVER_H_
