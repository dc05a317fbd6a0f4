// hub_dataset: a data set of the Hugging Face Hub, whose files are got when they are needed.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mpt/console/progress.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/hub/fetch_repository.hpp>
#include <parallel/core/temporary_folder.hpp>

namespace apps {

/// The snapshot of a repository. The process that downloads shows how far it is.
[[nodiscard]] mpt::hub::snapshot fetch_aloud(mpt::hub::wanted_repository const& wanted);

class hub_dataset {
 public:
  /// Looks up the set's current commit and its files, and gets its README.md; offline, in the
  /// cache.
  explicit hub_dataset(std::string name);

  /// Whether it is known which files the set has. The cache alone may not say so, if another
  /// program filled it.
  [[nodiscard]] bool is_listed() const { return !files_.empty(); }

  /// The folder in the cache that has, or gets, the files.
  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }

  /// The files that find_files finds with `names`, whose `name` plays no part. The set must be
  /// listed.
  [[nodiscard]] mpt::hub::listing files(mpt::finetune::file_names names) const;

  /// The splits that a subset has ("": the default one). The set must be listed.
  [[nodiscard]] std::vector<std::string> splits(std::string const& subset) const;

  /// Downloads those of the files that the cache lacks.
  void get(mpt::hub::listing const& files);

 private:
  /// Calls `find` with `names` for a folder of empty files of the same names as the set's, with its
  /// README.md. Errors name the set in place of that folder.
  void in_outline(mpt::finetune::file_names names,
                  std::function<void(mpt::finetune::file_names const& outlined)> const& find) const;

  void make_outline() const;

  std::string name_;
  std::filesystem::path folder_;
  std::string commit_;
  mpt::hub::listing files_;
  std::unique_ptr<mpt::console::progress> bar_;
  bool is_announced_ = false;                                    // that something is downloaded
  mutable std::unique_ptr<parallel::temporary_folder> outline_;  // made when files are looked for
};

}  // namespace apps
