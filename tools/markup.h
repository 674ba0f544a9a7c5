// Text in HTML and SVG.
#ifndef RVM_TOOLS_MARKUP_H_
#define RVM_TOOLS_MARKUP_H_

#include <string>
#include <string_view>

namespace rvm::tools {

// `text` as character data or as the value of an attribute in double quotes. Control characters that XML does not allow
// become U+FFFD.
inline std::string EscapeMarkup(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += "\xef\xbf\xbd";
    } else {
      out += c;
    }
  }
  return out;
}

// Returns the beginning of an XHTML page up to its heading.
inline std::string PageHead(std::string_view title, std::string_view style) {
  std::string head =
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
      "charset=\"utf-8\"/>\n<title>";
  head += EscapeMarkup(title);
  head += "</title>\n<style>";
  head += style;
  head += "</style>\n</head>\n<body>\n<h1>";
  head += EscapeMarkup(title);
  return head + "</h1>\n";
}

}  // namespace rvm::tools

#endif  // RVM_TOOLS_MARKUP_H_
