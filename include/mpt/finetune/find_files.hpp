// The files that a loader's hf_name, split and hf_kwargs name, on this machine.
//
// hf_name is a folder or a file, or a format (json, csv, parquet) whose files data_dir or
// data_files name. A folder's README.md may name them, too (dataset_card.hpp). A file is of the
// split that its name says (test.jsonl), else of `train`; asked for another it is an error, so that
// no evaluation reads what is trained on. Nothing is downloaded: a name on the Hugging Face Hub
// that is no folder here is an error that says what to do.
#pragma once

#include <fnmatch.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// What a loader says about files.
struct file_names {
  std::string name;        ///< hf_name
  std::string split{};     ///< as of Hugging Face: train, test, ...
  std::string data_dir{};  ///< of hf_kwargs: a folder in place of, or below, the name's
  std::map<std::string, std::vector<std::string>> data_files{};  ///< of hf_kwargs: paths, which may
                                                                 ///< have *, by split
};

/// The files, in order. Errors: no split, a split or file that is not there, a name of the Hub.
[[nodiscard]] std::vector<std::filesystem::path> find_files(file_names const& names);

}  // namespace mpt::finetune
