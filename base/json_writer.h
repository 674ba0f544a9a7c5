// Writes JSON: commas, quotes and indentation; the caller keeps objects and arrays balanced.
#ifndef RVM_BASE_JSON_WRITER_H_
#define RVM_BASE_JSON_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace rvm {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  // Name of the next value.
  JsonWriter& Key(std::string_view name);
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t number);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Number(double number);  // one that is not finite is null
  JsonWriter& Exact(double number);   // the same with as many digits as read back to it, not three behind the point
  JsonWriter& Field(std::string_view name, std::string_view text) { return Key(name).String(text); }
  JsonWriter& Field(std::string_view name, int64_t number) { return Key(name).Int(number); }
  JsonWriter& Field(std::string_view name, double number) { return Key(name).Number(number); }

  // Returns the text without a newline behind it.
  std::string TakeText() { return std::move(text_); }
  std::string Take() && { return std::move(text_) + "\n"; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void BeforeValue();
  void NewLine();
  void Quote(std::string_view text);

  std::string text_;
  int depth_ = 0;
  bool is_first_ = true;
  bool has_key_ = false;
};

}  // namespace rvm

#endif  // RVM_BASE_JSON_WRITER_H_
