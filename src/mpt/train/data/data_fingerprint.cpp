#include <mpt/train/data/data_fingerprint.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

#include <mpt/train/data/training_data.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::detail {

std::string checksum_of(data::token_dataset const& set) {
  parallel::checkpoint::running_checksum sum;
  sum.add(std::as_bytes(set.shard_samples()));
  std::vector<std::int32_t> ids(set.sequence_length());
  if (set.size() > 0)
    for (auto const sample : std::set{std::uint64_t{0}, set.size() / 2, set.size() - 1}) {
      set.sample(sample, ids);
      sum.add(std::as_bytes(std::span(ids)));
    }
  set.reader().close_others({});
  return parallel::hexadecimal(sum.value());
}

void shard_hashes::add(std::span<data::mds_shard const> shards) {
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

std::string shard_hashes::checksum() const {
  return all_have_hashes_ ? parallel::hexadecimal(sum_.value()) : std::string();
}

std::string shard_hashes::written_as() const {
  std::string out;
  for (auto const& encoding : encodings_) out += (out.empty() ? "" : " ") + encoding;
  return out;
}

std::string checksum_of(example_set const& set) {
  parallel::checkpoint::running_checksum sum;
  auto const lengths = set.lengths();
  sum.add(std::as_bytes(std::span(lengths)));
  for (auto const& example : set.examples) {
    sum.add(std::as_bytes(std::span(example.ids)));
    sum.add(std::as_bytes(std::span(example.labels)));
  }
  return parallel::hexadecimal(sum.value());
}

}  // namespace mpt::detail

namespace mpt {

std::vector<std::string> data_fingerprint(model_config const& model, data_config const& data,
                                          run_examples const& examples, remote_sets const& sets) {
  std::vector<std::string> out;
  auto const add = [&](std::string const& key, loader_config const& loader, example_set const* set,
                       std::shared_ptr<data::shard_cache> const& cache) {
    if (set != nullptr) {
      out.push_back(concat("the examples of ", key, " ", detail::checksum_of(*set)));
      return;
    }
    for (auto const& stream : loader.streams) {
      auto const set_data = open_dataset(loader, stream, model.vocab_size, cache);
      auto const& name = stream.local.empty() ? stream.remote : stream.local;
      out.push_back(concat("the data of ", key, ", ",
                           (std::filesystem::path(name) / stream.split).string(), ", ",
                           detail::checksum_of(*set_data)));
    }
  };
  add("train_loader", data.train_loader, examples.train.get(), sets.train);
  for (std::size_t i = 0; i < data.eval_loaders.size(); ++i) {
    auto const& loader = data.eval_loaders[i];
    add(eval_loader_name(loader), loader,
        i < examples.evaluation.size() ? examples.evaluation[i].get() : nullptr,
        sets.evaluation_cache(i));
  }
  return out;
}

}  // namespace mpt
