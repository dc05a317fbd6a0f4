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
namespace {

/// The numbers of the samples that the checksum of a set's tokens is of.
[[nodiscard]] std::vector<std::uint64_t> samples_to_read(data::token_dataset const& set,
                                                         checksum_extent extent) {
  auto const size = set.size();
  bool const is_remote_set = set.reader().remote().cache != nullptr;
  auto const sample_bytes = set.sequence_length() * sizeof(std::int32_t);
  bool const is_small = !is_remote_set && size <= small_input_bytes / sample_bytes;
  std::vector<std::uint64_t> out;
  if (extent == checksum_extent::whole || is_small)
    for (std::uint64_t sample = 0; sample < size; ++sample) out.push_back(sample);
  else if (is_remote_set)
    out = {0, size / 2, size - 1};
  else
    out = sampled_places(size, "samples");
  return out;
}

}  // namespace

input_facts data_facts(std::string const& input, std::filesystem::path const& path,
                       data::token_dataset const& set, checksum_extent extent) {
  parallel::checkpoint::running_checksum sizes;
  sizes.add(std::as_bytes(set.shard_samples()));
  parallel::checkpoint::running_checksum tokens;
  std::vector<std::int32_t> ids(set.sequence_length());
  for (auto const sample : samples_to_read(set, extent)) {
    set.sample(sample, ids);
    tokens.add(std::as_bytes(std::span(ids)));
  }
  set.reader().close_others({});
  detail::shard_hashes hashes;
  hashes.add(set.reader().shards());
  auto const text = [](std::uint64_t sum) { return "xxh3 " + parallel::hexadecimal(sum); };
  input_facts out{{input, path.string(), "the sizes of its shards", text(sizes.value())}};
  if (auto const sum = hashes.checksum(); !sum.empty())
    out.push_back({input, path.string(),
                   "the hashes in its index.json (" + hashes.written_as() + ")", "xxh3 " + sum,
                   true});
  out.push_back({input, path.string(), "its tokens", text(tokens.value())});
  return out;
}

input_facts data_facts(model_config const& model, data_config const& data,
                       run_examples const& examples, remote_sets const& sets,
                       checksum_extent extent) {
  input_facts out;
  auto const add = [&](std::string const& key, loader_config const& loader, example_set const* set,
                       std::shared_ptr<data::shard_cache> const& cache) {
    if (set != nullptr)
      return out.push_back({"the examples of " + key,
                            loader.finetuning ? loader.finetuning->name : "", "their ids",
                            "xxh3 " + detail::checksum_of(*set)});
    for (auto const& stream : loader.streams) {
      auto const name = std::filesystem::path(stream.local.empty() ? stream.remote : stream.local);
      auto const facts =
          data_facts("the data of " + key + (stream.name.empty() ? "" : ", stream " + stream.name),
                     stream.split.empty() ? name : name / stream.split,
                     *open_dataset(loader, stream, model.vocab_size, cache), extent);
      out.insert(out.end(), facts.begin(), facts.end());
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
