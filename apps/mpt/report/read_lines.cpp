#include <mpt/report/read_lines.hpp>

#include <cstddef>
#include <fstream>

#include <fmt/format.h>

#include <mpt/yaml/node.hpp>
#include <parallel/core/file.hpp>

namespace mpt::report {

void read_lines(std::filesystem::path const& file,
                std::function<std::string(nlohmann::ordered_json const&)> const& use,
                std::vector<std::string>& problems) {
  std::ifstream in(file);
  if (!in) parallel::files::failure(file, "cannot be read");
  constexpr std::size_t named_lines = 3;
  std::size_t number = 0, damaged = 0;
  std::string text;
  while (std::getline(in, text)) {
    ++number;
    auto const record = nlohmann::ordered_json::parse(text, nullptr, false);
    std::string problem;
    if (record.is_discarded())
      problem = in.eof() ? "is cut off" : "is no JSON";
    else
      problem = record.is_object() ? use(record) : "is no JSON object";
    if (problem.empty()) continue;
    if (++damaged > named_lines) continue;
    problems.push_back(fmt::format("{}: line {} {} and is left out: {}", file.native(), number,
                                   problem, printable(text.substr(0, 60))));
  }
  if (in.bad())
    problems.push_back(fmt::format("{}: could be read only up to line {}", file.native(), number));
  if (damaged > named_lines)
    problems.push_back(fmt::format("{}: {} more lines are damaged and left out", file.native(),
                                   damaged - named_lines));
}

}  // namespace mpt::report
