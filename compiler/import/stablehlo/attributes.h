// AttributeReader: the attributes and types of an artifact, which are read when something refers to them.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_ATTRIBUTES_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_ATTRIBUTES_H_

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "compiler/import/stablehlo/bytecode.h"
#include "compiler/import/stablehlo/module.h"

namespace rvm::stablehlo {

class AttributeReader {
 public:
  // All arguments must outlive the reader.
  AttributeReader(Bytes file, const std::vector<std::string_view>& strings, std::deque<Type>& types,
                  std::deque<Attribute>& attributes, Mistake* mistake)
      : file_(file), strings_(strings), types_(types), attributes_(attributes), mistake_(mistake) {}

  // Reads the sections that say where entries begin, and those that have them.
  void ReadEntries(Cursor offsets, Cursor data, const std::vector<std::string_view>& dialects);

  // Read the number of an entry at the cursor, and the entry; an empty one if the file is wrong.
  const Type* ReadType(Cursor& cursor);
  // Returns the same of a number with a flag in its lowest bit.
  const Type* ReadTypeWithFlag(Cursor& cursor, bool& flag);
  const Attribute* ReadAttribute(Cursor& cursor);

 private:
  enum class State : uint8_t { kUnread, kReading, kRead };
  template <typename T>
  struct Entry {
    std::string_view dialect;
    bool is_encoded = false;
    uint64_t begin = 0, end = 0;
    State state = State::kUnread;
    T* value = nullptr;
  };
  template <typename T>
  void ReadList(Cursor& offsets, uint64_t count, const std::vector<std::string_view>& dialects, uint64_t end,
                uint64_t& at, std::vector<Entry<T>>& entries);
  // Reads an entry if it has not been read.
  template <typename T>
  const T* Get(Cursor& cursor, uint64_t index, std::vector<Entry<T>>& entries, std::deque<T>& storage,
               std::string_view what);

  void Decode(Cursor& cursor, std::string_view dialect, Type& type);
  void Decode(Cursor& cursor, std::string_view dialect, Attribute& attribute);
  void DecodeVhlo(Cursor& cursor, Attribute& attribute);
  void DecodeBuiltin(Cursor& cursor, Attribute& attribute);
  void ReadElements(Cursor& cursor, Attribute& attribute, bool in_pairs);
  int64_t ReadInteger(Cursor& cursor, const Type& type);
  double ReadFloat(Cursor& cursor, const Type& type);
  std::string_view ReadString(Cursor& cursor);

  Bytes file_;
  const std::vector<std::string_view>& strings_;
  std::deque<Type>& types_;
  std::deque<Attribute>& attributes_;
  Mistake* mistake_;
  std::vector<Entry<Type>> type_entries_;
  std::vector<Entry<Attribute>> attribute_entries_;
  int depth_ = 0;
};

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_ATTRIBUTES_H_
