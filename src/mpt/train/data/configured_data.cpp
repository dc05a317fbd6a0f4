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
          .batches_per_epoch = batches.batches_per_epoch(),
          .date = batches.examples().date};
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
    model_config const& model, data_config const& data, execution_config const& execution,
    std::shared_ptr<example_set const> examples, int rank, int ranks,
    std::shared_ptr<data::shard_cache> const& cache) {
  if (examples != nullptr)
    return batch_source(std::in_place_type<example_batches>, data, execution, std::move(examples),
                        rank, ranks);
  require(!data.train_loader.finetuning,
          "train_loader reads finetuning examples, but none are given; pass the result of "
          "read_run_examples");
  return batch_source(std::in_place_type<training_batches>, model, data, execution, rank, ranks,
                      cache);
}

configured_set::configured_set(model_config const& model, loader_config const& loader,
                               evaluation_config const& evaluation,
                               execution_config const& execution,
                               std::shared_ptr<example_set const> examples, int ranks,
                               std::shared_ptr<data::shard_cache> const& cache)
    : loader_(&loader),
      device_batch_(evaluation.device_eval_batch_size),
      max_batches_(evaluation.eval_subset_num_batches),
      is_canonical_(is_canonical(execution)),
      examples_(std::move(examples)) {
  if (examples_ != nullptr) return;
  streams_ = open_streams(*loader_, model.vocab_size, cache);
  evaluation_batches::require_room(*streams_, device_batch_, ranks);
}

evaluation_set::reader configured_set::batches(int rank, int ranks) const {
  auto const make_reader = [](auto batches) { return [batches] { return batches->next(); }; };
  if (examples_ != nullptr)
    return make_reader(std::make_shared<example_evaluation>(*examples_, *loader_, device_batch_,
                                                            rank, ranks, max_batches_));
  return make_reader(std::make_shared<evaluation_batches>(
      *streams_, device_batch_, rank, ranks, max_batches_, separator_of(*loader_), is_canonical_,
      static_cast<std::uint64_t>(loader_->predownload.value_or(0))));
}

std::unique_ptr<run_batches> configured_data::batches(model_config const& model,
                                                      data_config const& data,
                                                      execution_config const& execution, int rank,
                                                      int ranks) const {
  return std::make_unique<configured_batches>(model, data, execution, examples_.train, rank, ranks,
                                              sets_.train);
}

std::vector<std::unique_ptr<evaluation_set>> configured_data::evaluation_sets(
    model_config const& model, data_config const& data, evaluation_config const& evaluation,
    execution_config const& execution, int ranks) const {
  std::vector<std::unique_ptr<evaluation_set>> out;
  auto const& examples = examples_.evaluation;
  for (std::size_t i = 0; i < data.eval_loaders.size(); ++i)
    out.push_back(std::make_unique<configured_set>(
        model, data.eval_loaders[i], evaluation, execution,
        i < examples.size() ? examples[i] : nullptr, ranks, sets_.evaluation_cache(i)));
  return out;
}

}  // namespace mpt
