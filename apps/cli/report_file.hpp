// Checks and writes the files for a program's results (--json, --markdown, …). The check comes
// before the program computes for hours.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <mpt/log/appended_file.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace apps {

/// The text of a document. Text in it that is not UTF-8 is replaced.
[[nodiscard]] inline std::string text_of_document(nlohmann::ordered_json const& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Throws unless `file` can be written: the file, or its folder, exists and may be written, and the
/// file is neither one of the program's `inputs` nor in a folder that holds a model or a data set.
/// `option` names the file in messages. "" and "-" (standard output) are always valid.
inline void check_report_file(std::string_view option, std::filesystem::path const& file,
                              std::vector<std::filesystem::path> const& inputs) {
  namespace fs = std::filesystem;
  if (file.empty() || file == "-") return;
  std::error_code unreadable;  // an unreadable path counts as absent
  auto const folder = parallel::files::parent_folder(file);
  parallel::require(!fs::is_directory(file, unreadable), option, ": ", file.native(),
                    " is a folder; name a file");
  bool const exists = fs::exists(file, unreadable);
  auto const& written = exists ? file : folder;
  if (::access(written.c_str(), W_OK) != 0)
    parallel::files::failure(file, parallel::concat(option, ": cannot be written"));
  if (!exists) return;
  for (auto const& input : inputs)
    parallel::require(!fs::equivalent(file, input, unreadable), option, ": ", file.native(),
                      " is what is read; choose another name");
  for (char const* const content : {"config.json", "manifest.json", "tokenizer.json", "index.json"})
    parallel::require(!fs::exists(folder / content, unreadable), option, ": ", file.native(),
                      " is there, with ", content,
                      ": files of a model, tokenizer or data set are not replaced; choose another "
                      "name or folder");
}

/// Writes a report file, completely or not at all, unless it is a device or a pipe; a pipe must
/// have a reader.
inline void write_report_file(std::filesystem::path file, std::string const& text) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  if (fs::is_symlink(file, unreadable)) file = fs::weakly_canonical(file, unreadable);
  if (!fs::exists(file, unreadable) || fs::is_regular_file(file, unreadable))
    return parallel::replace_text_file(file, text);
  mpt::appended_file out(file);
  out.add(text);
  if (out.lost() > 0) parallel::files::failure(file, "cannot write", out.loss_code());
}

}  // namespace apps
