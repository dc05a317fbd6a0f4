// data_fingerprint: describes the data that a run reads, one line per set, so that ranks on
// different machines can compare theirs. A machine may have its own copy with differently
// compressed shards: the lines describe the decompressed data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/example_set.hpp>
#include <mpt/train/training_data.hpp>
#include <parallel/checkpoint/hash.hpp>

namespace mpt {

namespace detail {

/// The checksum of a set's shard sizes and of its first, middle and last sample.
[[nodiscard]] inline std::string checksum_of(data::token_dataset const& set) {
  parallel::checkpoint::running_checksum sum;
  sum.add(std::as_bytes(set.shard_samples()));
  std::vector<std::int32_t> ids(set.sequence_length());
  if (set.size() > 0)
    for (auto const sample : std::set{std::uint64_t{0}, set.size() / 2, set.size() - 1}) {
      set.sample(sample, ids);
      sum.add(std::as_bytes(std::span(ids)));
    }
  return parallel::checkpoint::checksum_text(sum.value());
}

/// One checksum of the shard hashes that the indexes hold.
class shard_hashes {
 public:
  void add(std::span<data::mds_shard const> shards) {
    for (auto const& shard : shards) {
      std::string encoding = shard.layout.compression;
      all_have_hashes_ = all_have_hashes_ && !shard.raw.hashes.empty();
      for (auto const& [algorithm, digest] : shard.raw.hashes) {
        encoding += "+" + algorithm;
        sum_.add(std::as_bytes(std::span(digest)));
      }
      encodings_.insert(std::move(encoding));
    }
  }

  /// The checksum; "" where a shard has no hash.
  [[nodiscard]] std::string checksum() const {
    return all_have_hashes_ ? parallel::checkpoint::checksum_text(sum_.value()) : std::string();
  }
  /// The compressions and hash algorithms of the shards.
  [[nodiscard]] std::string written_as() const {
    std::string out;
    for (auto const& encoding : encodings_) out += (out.empty() ? "" : " ") + encoding;
    return out;
  }

 private:
  parallel::checkpoint::running_checksum sum_;
  std::set<std::string> encodings_;
  bool all_have_hashes_ = true;
};

[[nodiscard]] inline std::string checksum_of(example_set const& set) {
  parallel::checkpoint::running_checksum sum;
  auto const lengths = set.lengths();
  sum.add(std::as_bytes(std::span(lengths)));
  for (auto const& example : set.examples) {
    sum.add(std::as_bytes(std::span(example.ids)));
    sum.add(std::as_bytes(std::span(example.labels)));
  }
  return parallel::checkpoint::checksum_text(sum.value());
}

}  // namespace detail

/// A line for each set of a run, in the order of its loaders: its name and a checksum, for examples
/// of all ids, for text of the shards' sizes and three samples. Equal data give equal lines,
/// wherever they are stored and however they are compressed. `examples`: the result of
/// read_run_examples. Throws for a set that cannot be read. Cost: three shards of each set are
/// read.
[[nodiscard]] inline std::vector<std::string> data_fingerprint(train_config const& config,
                                                               run_examples const& examples) {
  std::vector<std::string> out;
  auto const add = [&](std::string const& key, loader_config const& loader,
                       example_set const* set) {
    if (set != nullptr) {
      out.push_back(concat("the examples of ", key, " ", detail::checksum_of(*set)));
      return;
    }
    for (auto const& stream : loader.streams) {
      auto const data = open_dataset(loader, stream, config.model.vocab_size);
      auto const& name = stream.local.empty() ? stream.remote : stream.local;
      out.push_back(concat("the data of ", key, ", ",
                           (std::filesystem::path(name) / stream.split).string(), ", ",
                           detail::checksum_of(*data)));
    }
  };
  add("train_loader", config.train_loader, examples.train.get());
  for (std::size_t i = 0; i < config.eval_loaders.size(); ++i) {
    auto const& loader = config.eval_loaders[i];
    add(eval_loader_name(loader), loader,
        i < examples.evaluation.size() ? examples.evaluation[i].get() : nullptr);
  }
  return out;
}

}  // namespace mpt
