// Names of the Hugging Face Hub where the programs take folders: the hub's files are taken from its
// cache, or downloaded to it, and the cache's folder is used. Of several processes one downloads a
// file, the others wait for it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <mpt/config/train.hpp>
#include <mpt/eval/eval_config.hpp>

namespace apps {

/// Checks that an option is a path that exists, or may be a name of the hub (ORG/NAME).
[[nodiscard]] CLI::Validator existing_path_or_name();

/// `path`, or the folder of the model in the hub's cache where it is a name of the hub.
[[nodiscard]] std::filesystem::path local_model(std::filesystem::path const& path);

/// If `folder` is an adapter in PEFT's form whose model is named as on the hub, gets that model
/// into the hub's cache, where model_source finds it.
void fetch_adapted_model(std::filesystem::path const& folder);

/// `name`, or the folder of its tokenizer in the hub's cache where it is a name of the hub.
[[nodiscard]] std::string local_tokenizer(std::string const& name);

/// The YAML file of a training run. Models and tokenizers that it names as on the hub, and that its
/// table `mirrors` does not map, are downloaded when it is read, each once.
class training_file {
 public:
  explicit training_file(std::filesystem::path file) : file_(std::move(file)) {}

  /// Reads the file with overrides. A tokenizer that training does not need is not downloaded, nor
  /// are weights for a dry run. `on_document`, if it is given, is called with the document as it
  /// was written; the file, which may be a pipe, is read once.
  [[nodiscard]] mpt::train_config load(
      std::span<std::string const> overrides,
      std::function<void(mpt::config_node const&)> const& on_document = {});

 private:
  /// Replaces the names of the hub in a document by folders of the cache.
  void replace_names(mpt::config_node& root);

  /// The folder that get() finds for a name of the hub, which is called once for each purpose.
  [[nodiscard]] std::string folder_of(std::string const& purpose, std::string const& name,
                                      std::function<std::string()> const& get);

  std::filesystem::path file_;
  std::map<std::pair<std::string, std::string>, std::string> folders_;  // by purpose and name
};

/// Gets the files of the sets that finetuning names as on the hub (hf_name).
void fetch_named_sets(mpt::data_config& data);

/// Reads an evaluation's configuration; models and tokenizers that it names as on the hub are got.
[[nodiscard]] mpt::eval::eval_config load_eval_config(std::filesystem::path const& file,
                                                      std::span<std::string const> overrides);

}  // namespace apps
