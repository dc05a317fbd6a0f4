#include <mpt/report/read_lines.hpp>

#include <cerrno>
#include <fstream>
#include <istream>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include <mpt/yaml/node.hpp>

namespace mpt::report {

namespace {

/// A line of a file, without its end.
struct text_line {
  std::string text;
  bool is_too_long = false;  // then `text` is its beginning
  bool is_last = false;      // nothing ends it
};

/// Reads the next line into `line`; false at the end of the file.
bool read_line(std::istream& in, std::vector<char>& buffer, text_line& line) {
  in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  auto const count = static_cast<std::size_t>(in.gcount());
  line.is_too_long = in.fail() && !in.eof() && !in.bad() && count + 1 == buffer.size();
  if (!line.is_too_long && (in.fail() || in.bad())) return false;
  line.is_last = in.eof();
  bool const has_end = !line.is_too_long && !line.is_last;  // which is counted
  line.text.assign(buffer.data(), count - (has_end ? 1 : 0));
  if (!line.is_too_long) return true;
  in.clear();
  in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  return true;
}

std::string use_line(text_line const& line,
                     std::function<std::string(nlohmann::ordered_json const&)> const& use) {
  if (line.is_too_long) return "is too long";
  auto const record = nlohmann::ordered_json::parse(line.text, nullptr, false);
  if (record.is_discarded()) return line.is_last ? "is cut off" : "is no JSON";
  return record.is_object() ? use(record) : "is no JSON object";
}

}  // namespace

std::size_t read_lines(std::filesystem::path const& file,
                       std::function<std::string(nlohmann::ordered_json const&)> const& use,
                       std::vector<std::string>& problems) {
  constexpr std::size_t longest_line = std::size_t{4} << 20;  // bytes
  constexpr std::size_t named_lines = 3;
  errno = 0;
  std::ifstream in(file);
  std::size_t number = 0, damaged = 0;
  std::vector<char> buffer(longest_line + 1);
  for (text_line line; in && read_line(in, buffer, line);) {
    ++number;
    auto const problem = use_line(line, use);
    if (problem.empty() || ++damaged > named_lines) continue;
    problems.push_back(fmt::format("{}: line {} {} and is left out: {}", file.native(), number,
                                   problem, printable(line.text.substr(0, 60))));
  }
  if (in.bad() || !in.is_open())
    problems.push_back(fmt::format("{}: can be read only up to line {}: {}", file.native(), number,
                                   std::generic_category().message(errno)));
  if (damaged > named_lines)
    problems.push_back(fmt::format("{}: {} more lines are damaged and left out", file.native(),
                                   damaged - named_lines));
  return number - damaged;
}

}  // namespace mpt::report
