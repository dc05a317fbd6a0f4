// data_fingerprint: what a run reads, in a line a set that ranks on other machines compare with
// theirs. A machine may have a copy of its own, with shards compressed or not: what is compared is
// what is read.
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

/// Of its shards' sizes and of its first, middle and last sample.
[[nodiscard]] inline std::string checksum_of(data::token_dataset const& set) {
  parallel::checkpoint::running_checksum sum;
  sum.add(std::as_bytes(set.shard_samples()));
  std::vector<std::int32_t> ids(set.sequence_length());
  if (set.size() > 0)
    for (auto const at : std::set{std::uint64_t{0}, set.size() / 2, set.size() - 1}) {
      set.sample(at, ids);
      sum.add(std::as_bytes(std::span(ids)));
    }
  return parallel::checkpoint::checksum_text(sum.value());
}

/// The hashes of shards that indexes have, as one checksum.
class shard_hashes {
 public:
  void add(std::span<data::mds_shard const> shards) {
    for (auto const& shard : shards) {
      std::string way = shard.layout.compression;
      all_have_ = all_have_ && !shard.raw.hashes.empty();
      for (auto const& [algorithm, digest] : shard.raw.hashes) {
        way += "+" + algorithm;
        sum_.add(std::as_bytes(std::span(digest)));
      }
      ways_.insert(std::move(way));
    }
  }

  /// "" where a shard has no hash.
  [[nodiscard]] std::string checksum() const {
    return all_have_ ? parallel::checkpoint::checksum_text(sum_.value()) : std::string();
  }
  /// The compressions and algorithms that there are.
  [[nodiscard]] std::string written_as() const {
    std::string out;
    for (auto const& way : ways_) out += (out.empty() ? "" : " ") + way;
    return out;
  }

 private:
  parallel::checkpoint::running_checksum sum_;
  std::set<std::string> ways_;
  bool all_have_ = true;
};

[[nodiscard]] inline std::string checksum_of(example_set const& set) {
  parallel::checkpoint::running_checksum sum;
  auto const lengths = set.lengths();
  sum.add(std::as_bytes(std::span(lengths)));
  for (auto const& one : set.examples) {
    sum.add(std::as_bytes(std::span(one.ids)));
    sum.add(std::as_bytes(std::span(one.labels)));
  }
  return parallel::checkpoint::checksum_text(sum.value());
}

}  // namespace detail

/// A line for each set of a run, in the order of its loaders: what it is called and a checksum, of
/// all ids of examples, and of the shards' sizes and three samples of text. Equal data give equal
/// lines, wherever they lie and however they are compressed. `examples`: what read_run_examples
/// gives. Throws for a set that cannot be read. Cost: three shards of each set are read.
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
