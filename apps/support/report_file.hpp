// Files that a program writes its results to (--json, --markdown, …), checked before hours are
// spent on what they shall hold.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace apps {

/// Throws unless `file` can be written: it, or its folder, is there and may be written; it is none
/// of the program's `inputs` and no file of a folder that holds a model or a data set. `option`
/// names it in messages; "" and "-" (standard output) are always good.
inline void check_report_file(std::string_view option, std::filesystem::path const& file,
                              std::vector<std::filesystem::path> const& inputs) {
  namespace fs = std::filesystem;
  if (file.empty() || file == "-") return;
  std::error_code none;  // what cannot be seen is not there
  auto const folder = parallel::files::parent_folder(file);
  parallel::require(!fs::is_directory(file, none), option, ": ", file.native(),
                    " is a folder; name a file");
  bool const there = fs::exists(file, none);
  auto const& written = there ? file : folder;
  if (::access(written.c_str(), W_OK) != 0)
    parallel::files::failure(file, parallel::concat(option, ": cannot be written"));
  if (!there) return;
  for (auto const& input : inputs)
    parallel::require(!fs::equivalent(file, input, none), option, ": ", file.native(),
                      " is what is read; choose another name");
  for (char const* const content : {"config.json", "manifest.json", "tokenizer.json", "index.json"})
    parallel::require(!fs::exists(folder / content, none), option, ": ", file.native(),
                      " is there, beside ", content,
                      ": files of a model, tokenizer or data set are not replaced; choose another "
                      "name or folder");
}

/// Writes such a file: as a whole or not at all, but where it is a device or a pipe.
inline void write_report_file(std::filesystem::path file, std::string const& text) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_symlink(file, none)) file = fs::weakly_canonical(file, none);
  if (!fs::exists(file, none) || fs::is_regular_file(file, none))
    return parallel::replace_text_file(file, text);
  errno = 0;
  std::ofstream out(file, std::ios::app);
  out << text << std::flush;
  if (!out.good()) parallel::files::failure(file, "cannot write");
}

}  // namespace apps
