// loader_config: LLM Foundry's `train_loader` and `eval_loader`, for tokenised MDS sets on this
// machine (name: text) or prompts with responses (name: finetuning, config/data/finetuning.hpp).
//
// The samples of an epoch follow streaming's rule (streams and their weights, epoch_size); their
// order is ParallelLM's and the same for any number of ranks (data/order/mixture_order.hpp).
// shuffle_algo only sets the reach of the shuffle: naive mixes the whole epoch, py1s and py2s mix
// as many samples as the largest shard holds, and the others mix shuffle_block_size samples (by
// default four of the largest shards). Settings of streaming's partition and worker processes are
// without effect, and those of downloads where nothing is downloaded. `remote` is a mounted folder,
// which is read in place, or an address (http, https, s3), whose shards come into `local`
// (data/shard_cache.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/finetuning.hpp>
#include <mpt/data/order/stream_weights.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// One MDS set.
struct stream_config {
  std::string name{};    ///< "" for the only stream of a loader
  std::string local{};   ///< the folder of the set
  std::string remote{};  ///< folder or address that is read when `local` holds no set; or ""
  std::string split{};   ///< subfolder of `local` or `remote`, or ""
  data::stream_weight weight{};
  std::int64_t download_retry = 5;  ///< attempts at a file after the first
  double download_timeout = 60;     ///< seconds in which a connection brings no byte
  friend bool operator==(stream_config const&, stream_config const&) = default;
};

/// How far a sample may move in an epoch.
enum class shuffle_reach { block, shard, epoch };

/// `train_loader` or one item of `eval_loader`.
struct loader_config {
  std::string label;                            ///< of an evaluation set; "" when there is only one
  std::vector<stream_config> streams;           ///< at least one, unless finetuning has other data
  std::optional<finetuning_config> finetuning;  ///< none: text
  std::optional<std::uint64_t> epoch_size;      ///< samples; none: as the streams' weights say
  std::optional<std::uint64_t> cache_limit;     ///< bytes of remote shards on this machine's disk
  std::optional<std::int64_t> predownload;      ///< samples of a rank; none: of eight batches
  bool shuffle = false;
  shuffle_reach reach = shuffle_reach::block;
  std::uint64_t shuffle_seed = 9176;
  std::optional<std::int64_t> shuffle_block_size;  ///< samples; none: the shuffle's own default
  std::int64_t max_seq_len = 0;                    ///< samples are cut to this many tokens
  std::string token_encoding_type = "int64";       ///< of samples stored as plain bytes
  std::optional<std::int32_t> eos_token_id;        ///< ends each text that is packed in a sample
  std::optional<std::int32_t> bos_token_id;        ///< begins each text that is packed in a sample

  friend bool operator==(loader_config const&, loader_config const&) = default;
};

/// The name of an evaluation loader in messages.
[[nodiscard]] std::string eval_loader_name(loader_config const& loader);

/// Whether text is an address such as s3://bucket/folder rather than a path.
[[nodiscard]] bool is_remote(std::string_view path);

/// Defaults of a loader that depend on the rest of the configuration.
struct loader_defaults {
  std::int64_t max_seq_len = 2048;
  bool drop_last =
      true;  ///< whether an incomplete last batch is dropped; the key drop_last cannot change it
};

/// Reads the folders of a set from `dataset` or one of its streams, and how it is downloaded;
/// `defaults` has the values of keys that are absent, and the name.
[[nodiscard]] stream_config read_stream(config_reader& data, stream_config defaults);

/// Reads `dataset.streams`, a mapping from names to sets with weights.
[[nodiscard]] std::vector<stream_config> read_streams(config_reader& data, bool finetuning);

/// Reads and checks a loader.
[[nodiscard]] loader_config read_loader(config_reader reader, loader_defaults const& defaults);

/// Reads `eval_loader`: one loader, or a list of them with different labels.
[[nodiscard]] std::vector<loader_config> read_eval_loaders(config_reader& parent,
                                                           loader_defaults const& defaults);

}  // namespace mpt
