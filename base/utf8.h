// UTF-8 in bytes of unknown origin, such as the names in a model.
#ifndef RVM_BASE_UTF8_H_
#define RVM_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rvm {

// Returns the number of bytes of the character that `text` begins with; 0 if it begins with none.
size_t Utf8CharacterSize(std::string_view text);

// `text` as any terminal and any program shows it: control characters other than newlines and tabs, and bytes that are
// no UTF-8, are written like `\x1b`.
std::string ReadableText(std::string_view text);

}  // namespace rvm

#endif  // RVM_BASE_UTF8_H_
