// results_file: the option --json, by which every program that prints figures also gives them as
// one JSON document, to a file or, alone, on standard output.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cli/report_file.hpp>

namespace apps {

/// The option --json of a program.
class results_file {
 public:
  /// Adds the option to a program. `content`: the contents of the document, such as "the counts".
  CLI::Option* add_to(CLI::App& app, std::string const& content) {
    return app.add_option(
        "--json", file_,
        fmt::format("also write {} as JSON to this file (-: print, alone)", content));
  }

  [[nodiscard]] bool is_asked() const { return !file_.empty(); }

  /// Whether standard output is the document's, so that no other text may be printed there.
  [[nodiscard]] bool is_printed_alone() const { return file_ == "-"; }

  /// The file; "" where it is not asked for, or printed.
  [[nodiscard]] std::filesystem::path file() const {
    return is_printed_alone() ? std::filesystem::path() : file_;
  }

  /// Throws unless the document can be written: see check_report_file.
  void check(std::vector<std::filesystem::path> const& inputs = {}) const {
    check_report_file("--json", file_, inputs);
  }

  /// Writes the document if it is asked for.
  void write(nlohmann::ordered_json const& document) const {
    if (!is_asked()) return;
    auto const text = text_of_document(document);
    if (is_printed_alone())
      fmt::print("{}", text);
    else
      write_report_file(file_, text);
  }

 private:
  std::filesystem::path file_;
};

}  // namespace apps
