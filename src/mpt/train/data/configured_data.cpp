#include <mpt/train/data/configured_data.hpp>

#include <span>
#include <string>

#include <mpt/train/data/data_fingerprint.hpp>
#include <mpt/train/data/run_data.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::detail {

trained_set make_trained_set(example_batches const& batches) {
  return {.samples = batches.samples(),
          .checksum = checksum_of(batches.examples()),
          .batches_per_epoch = batches.batches_per_epoch()};
}

trained_set make_trained_set(training_batches const& batches) {
  using parallel::hexadecimal;
  parallel::checkpoint::running_checksum sizes;
  std::string contents;
  shard_hashes hashes;
  auto const& streams = batches.streams();
  for (std::size_t s = 0; s < streams.count(); ++s) {
    sizes.add(std::as_bytes(streams.set(s).shard_samples()));
    contents += (s == 0 ? "" : " ") + checksum_of(streams.set(s));
    hashes.add(streams.set(s).reader().shards());
  }
  return {.samples = batches.samples(),
          .checksum = hexadecimal(sizes.value()),
          .batches_per_epoch = batches.batches_per_epoch(),
          .contents = std::move(contents),
          .hashes = hashes.checksum(),
          .written_as = hashes.written_as()};
}

}  // namespace mpt::detail

namespace mpt {

index configured_batches::batches_per_epoch() const {
  return std::visit([](auto const& s) { return s.batches_per_epoch(); }, source_);
}

parallel::data::share configured_batches::share() const {
  return std::visit([](auto const& s) { return s.share(); }, source_);
}

sequences configured_batches::at(index batch) {
  return std::visit([&](auto& s) { return s.at(batch); }, source_);
}

bool configured_batches::is_in_memory() const {
  return std::holds_alternative<example_batches>(source_);
}

std::int64_t configured_batches::tokens() const {
  auto const* const examples = std::get_if<example_batches>(&source_);
  return examples != nullptr ? examples->tokens() : padded_tokens_;
}

std::int64_t configured_batches::padded_tokens() const {
  auto const* const examples = std::get_if<example_batches>(&source_);
  return examples != nullptr ? examples->padded_tokens() : padded_tokens_;
}

double configured_batches::waited_seconds() const {
  return std::visit([](auto const& s) { return s.waited_seconds(); }, source_);
}

configured_batches::batch_source configured_batches::open(
    train_config const& config, std::shared_ptr<example_set const> examples, int rank, int ranks,
    std::shared_ptr<data::shard_cache> const& cache) {
  if (examples != nullptr)
    return batch_source(std::in_place_type<example_batches>, config.data, config.execution,
                        std::move(examples), rank, ranks);
  require(!config.data.train_loader.finetuning,
          "train_loader reads finetuning examples, but none are given; pass the result of "
          "read_run_examples");
  return batch_source(std::in_place_type<training_batches>, config.model, config.data,
                      config.execution, rank, ranks, cache);
}

configured_set::configured_set(train_config const& config, std::size_t set_index,
                               std::shared_ptr<example_set const> examples, int ranks,
                               std::shared_ptr<data::shard_cache> const& cache)
    : config_(&config),
      loader_(&config.data.eval_loaders[set_index]),
      examples_(std::move(examples)) {
  if (examples_ != nullptr) return;
  streams_ = open_streams(*loader_, config.model.vocab_size, cache);
  evaluation_batches::require_room(*streams_, config.evaluation.device_eval_batch_size, ranks);
}

evaluation_set::reader configured_set::batches(int rank, int ranks) const {
  auto const device_batch = config_->evaluation.device_eval_batch_size;
  auto const max_batches = config_->evaluation.eval_subset_num_batches;
  auto const make_reader = [](auto batches) { return [batches] { return batches->next(); }; };
  if (examples_ != nullptr)
    return make_reader(std::make_shared<example_evaluation>(*examples_, *loader_, device_batch,
                                                            rank, ranks, max_batches));
  return make_reader(std::make_shared<evaluation_batches>(
      *streams_, device_batch, rank, ranks, max_batches, separator_of(*loader_),
      is_canonical(config_->execution),
      static_cast<std::uint64_t>(loader_->predownload.value_or(0))));
}

std::unique_ptr<run_batches> configured_data::batches(train_config const& config, int rank,
                                                      int ranks) const {
  return std::make_unique<configured_batches>(config, examples_.train, rank, ranks, sets_.train);
}

std::vector<std::unique_ptr<evaluation_set>> configured_data::evaluation_sets(
    train_config const& config, int ranks) const {
  std::vector<std::unique_ptr<evaluation_set>> out;
  auto const& evaluation = examples_.evaluation;
  for (std::size_t i = 0; i < config.data.eval_loaders.size(); ++i)
    out.push_back(std::make_unique<configured_set>(config, i,
                                                   i < evaluation.size() ? evaluation[i] : nullptr,
                                                   ranks, sets_.evaluation_cache(i)));
  return out;
}

}  // namespace mpt
