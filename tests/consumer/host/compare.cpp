// Runs both programs and compares what they print.
#include <cstdio>
#include <string>

namespace {

std::string output_of(char const* program) {
  std::string text;
  FILE* const pipe = popen(program, "r");
  if (pipe == nullptr) return {};
  char buffer[4096];
  for (std::size_t bytes; (bytes = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, bytes);
  return pclose(pipe) == 0 ? text : std::string();
}

}  // namespace

int main() {
  auto const header_only = output_of(HEADER_ONLY), compiled = output_of(COMPILED);
  std::printf("header-only:\n%scompiled:\n%s", header_only.c_str(), compiled.c_str());
  return !header_only.empty() && header_only == compiled ? 0 : 1;
}
