// The style and the script of pages: report.css and report.js.
#ifndef RVM_TOOLS_RELAYVM_PAGE_ASSETS_H_
#define RVM_TOOLS_RELAYVM_PAGE_ASSETS_H_

#include <string_view>

namespace rvm::tools {

std::string_view PageStyle();
std::string_view PageScript();

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PAGE_ASSETS_H_
