// loader_config: LLM Foundry's `train_loader` and `eval_loader`, for tokenised MDS sets on this
// machine.
//
// Shuffling is our own (it does not depend on the number of ranks), so streaming's knobs for its
// algorithms, and everything about worker processes and downloads, are without effect. What would
// choose other samples (several streams, epoch_size, remote sets) is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/config/reader.hpp>

namespace mpt {

/// `train_loader` or one item of `eval_loader`.
struct loader_config {
  std::string label;  ///< of an evaluation set; "" when there is only one
  std::string local;  ///< folder of the set
  std::string split;  ///< subfolder, or ""
  bool shuffle = false;
  std::uint64_t shuffle_seed = 9176;
  std::optional<std::int64_t> shuffle_block_size;  ///< samples; none: the shuffle's own default
  std::int64_t max_seq_len = 0;                    ///< samples are cut to this many tokens
  std::string token_encoding_type = "int64";       ///< of samples stored as plain bytes
  bool drop_last = true;                           ///< leave out the batch that is not full

  friend bool operator==(loader_config const&, loader_config const&) = default;
};

/// The folder that holds index.json.
[[nodiscard]] inline std::string folder_of(loader_config const& loader) {
  if (loader.split.empty()) return loader.local;
  return loader.local.ends_with('/') ? loader.local + loader.split
                                     : loader.local + "/" + loader.split;
}

/// Whether text is an address such as s3://bucket/folder rather than a path.
[[nodiscard]] inline bool is_remote(std::string_view path) {
  auto const colon = path.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  for (char const c : path.substr(0, colon))
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
          c == '-' || c == '.'))
      return false;
  return true;
}

/// What a loader takes from the rest of the configuration.
struct loader_defaults {
  std::int64_t max_seq_len = 2048;
  bool drop_last = true;
};

/// Reads and checks a loader.
[[nodiscard]] inline loader_config read_loader(config_reader reader,
                                               loader_defaults const& defaults) {
  loader_config loader;
  reader.not_yet("name", "use text", {"text"});
  loader.label = reader.get<std::string>("label", "");
  loader.drop_last = reader.get("drop_last", defaults.drop_last);
  for (std::string_view const key :
       {"num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout"})
    reader.without_effect(key, "batches are read ahead without worker processes");

  auto data = reader.section("dataset");
  loader.local = data.required<std::string>("local");
  data.check("local", !loader.local.empty() && !is_remote(loader.local),
             "expected a folder on this machine, found '", printable(loader.local), "'");
  auto const remote = data.get<std::string>("remote", "");
  data.check("remote", remote.empty() || remote == loader.local, "'", printable(remote),
             "' is not yet supported; data is read from dataset.local, so leave remote blank");
  loader.split = data.get<std::string>("split", "");
  data.check(
      "split",
      loader.split.find('/') == std::string::npos && loader.split != ".." && loader.split != ".",
      "expected the name of a subfolder, found '", printable(loader.split), "'");
  loader.shuffle = data.get("shuffle", loader.shuffle);
  auto const seed = data.get<std::int64_t>("shuffle_seed", 9176);
  data.check("shuffle_seed", seed >= 0, "must not be negative, found ", seed);
  loader.shuffle_seed = static_cast<std::uint64_t>(seed);
  loader.shuffle_block_size = data.optional<std::int64_t>("shuffle_block_size");
  data.check("shuffle_block_size", loader.shuffle_block_size.value_or(1) >= 1,
             "must be above 0, found ", loader.shuffle_block_size.value_or(1));
  loader.max_seq_len = data.get("max_seq_len", defaults.max_seq_len);
  data.check("max_seq_len", loader.max_seq_len >= 2 && loader.max_seq_len <= largest_seq_len,
             "must be from 2 to ", largest_seq_len, ", found ", loader.max_seq_len);
  loader.token_encoding_type =
      data.one_of("token_encoding_type", loader.token_encoding_type,
                  {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"});

  data.not_yet("streams", "give one set as dataset.local");
  data.not_yet("epoch_size", "an epoch is every sample once");
  data.not_yet("replication", "leave it blank", {"1"});
  data.not_yet("stream_name", "leave it blank", {"stream"});
  data.not_yet("stream_config", "leave it blank");
  for (std::string_view const key :
       {"hf_name", "hf_kwargs", "preprocessing_fn", "decoder_only_format", "packing_ratio",
        "safe_load", "allow_pad_trimming", "target_prompts", "target_responses"})
    data.not_yet(key, "finetuning comes later; use a text loader with an MDS set");
  for (std::string_view const key :
       {"shuffle_algo", "num_canonical_nodes", "partition_algo", "sampling_method",
        "sampling_granularity", "batching_method", "batch_size"})
    data.without_effect(key, "the order is our own and the same for any number of ranks");
  for (std::string_view const key : {"download_retry", "download_timeout", "predownload",
                                     "cache_limit", "keep_zip", "validate_hash"})
    data.without_effect(key, "nothing is downloaded");
  data.without_effect("allow_unsafe_types", "pickled samples are never read");
  for (std::string_view const key : {"eos_token_id", "bos_token_id"})
    data.without_effect(key, "tokens of packed texts attend to each other");
  data.finish();
  reader.finish();
  return loader;
}

/// Reads `eval_loader`: one loader, or a list of them with different labels.
[[nodiscard]] inline std::vector<loader_config> read_eval_loaders(config_reader& parent,
                                                                  loader_defaults const& defaults) {
  std::vector<loader_config> loaders;
  config_node const* const node = parent.raw("eval_loader");
  if (node == nullptr) return loaders;
  if (!node->is_list()) {
    loaders.push_back(read_loader(parent.section("eval_loader"), defaults));
    return loaders;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    config_reader item(node->items[i], parallel::concat("eval_loader.", i), parent.report());
    loaders.push_back(read_loader(std::move(item), defaults));
    auto const& label = loaders.back().label;
    parallel::require(!label.empty(), node->items[i].place, ": eval_loader.", i,
                      ".label: missing; each loader of a list needs one");
    for (std::size_t k = 0; k < i; ++k)
      parallel::require(loaders[k].label != label, node->items[i].place, ": eval_loader.", i,
                        ".label: '", printable(label), "' is also the label of eval_loader.", k);
  }
  return loaders;
}

}  // namespace mpt
