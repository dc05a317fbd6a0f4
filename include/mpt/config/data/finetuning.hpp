// finetuning_config: the `dataset` of LLM Foundry's finetuning loader: prompts with the responses
// that the model learns.
//
// Batches are the same for any number of ranks: the global batch is padded or packed as a whole, as
// LLM Foundry does on one rank. The folder mpt/finetune finds the rows and preprocesses them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// The columns that hold prompts and responses.
struct prompt_columns {
  std::string prompt;
  std::string response;
  friend bool operator==(prompt_columns const&, prompt_columns const&) = default;
};

/// How many examples a row of a batch holds on average: `packing_ratio`.
struct packing_config {
  std::optional<double> ratio;                ///< none: auto, the largest that omits no example
  std::optional<std::int64_t> leftover_bins;  ///< bins that wait for a later batch; none: all
  friend bool operator==(packing_config const&, packing_config const&) = default;
};

struct finetuning_config {
  std::string name{};      ///< hf_name: a folder, a file, or a file type; "" for an MDS set
  std::string set{};       ///< hf_name as it is written; `name` may be its mirror
  std::string subset{};    ///< hf_kwargs.name, a configuration of the set, or ""
  std::string data_dir{};  ///< hf_kwargs.data_dir, or ""
  /// hf_kwargs.data_files by split; the split "" stands for any
  std::map<std::string, std::vector<std::string>> data_files{};
  std::string split{};          ///< or "" for all
  std::string preprocessing{};  ///< the known set whose preprocessing applies, or ""
  std::optional<prompt_columns> columns{};
  std::string target_prompts = "none";
  std::string target_responses = "last";
  std::optional<packing_config> packing{};  ///< none: an example a row, padded
  finetune::row_trimming trimming = finetune::row_trimming::none;  ///< of training batches
  friend bool operator==(finetuning_config const&, finetuning_config const&) = default;
};

namespace detail {

/// Keys of a loader's `dataset` that belong to finetuning.
[[nodiscard]] finetuning_config read_finetuning(config_reader& data);

/// Refuses the keys of finetuning in another loader.
void refuse_finetuning(config_reader& data);

}  // namespace detail

}  // namespace mpt
