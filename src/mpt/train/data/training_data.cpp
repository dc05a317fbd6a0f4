#include <mpt/train/data/training_data.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include <mpt/train/data/remote_sets.hpp>
#include <mpt/train/data/stream_folder.hpp>

namespace mpt {

std::shared_ptr<data::token_dataset const> open_dataset(
    loader_config const& loader, stream_config const& stream, std::int64_t vocab_size,
    std::shared_ptr<data::shard_cache> const& cache) {
  data::token_dataset_options options{
      .sequence_length = static_cast<std::uint64_t>(loader.max_seq_len), .vocab_size = vocab_size};
  for (auto const& known : data::detail::mds_types)
    if (known.name == loader.token_encoding_type) options.raw_type = known.type;
  auto folder = stream_folder(stream);
  options.remote = remote_set_of(cache, folder);
  return std::make_shared<data::token_dataset const>(std::move(folder), std::move(options));
}

data::token_streams open_streams(loader_config const& loader, std::int64_t vocab_size,
                                 std::shared_ptr<data::shard_cache> const& cache) {
  for (auto const& id : {loader.eos_token_id, loader.bos_token_id})
    parallel::require(
        !id || (*id >= 0 && *id < vocab_size), "the token ", id.value_or(0),
        " that divides texts (eos_token_id or bos_token_id) is not one of the model's ",
        vocab_size);
  std::vector<std::shared_ptr<data::token_dataset const>> sets;
  std::vector<data::stream_weight> weights;
  std::vector<std::uint64_t> sizes;
  for (auto const& stream : loader.streams) {
    sets.push_back(open_dataset(loader, stream, vocab_size, cache));
    weights.push_back(stream.weight);
    sizes.push_back(sets.back()->size());
  }
  return {std::move(sets),
          data::sample_counts(weights, sizes, loader.epoch_size, loader.shuffle_seed)};
}

data::sample_order_options order_of(loader_config const& loader,
                                    data::token_streams const& streams) {
  data::sample_order_options order{
      .mode = loader.shuffle ? data::shuffle::blocks : data::shuffle::none,
      .seed = loader.shuffle_seed,
      .block_size = static_cast<std::uint64_t>(loader.shuffle_block_size.value_or(0))};
  if (loader.reach == shuffle_reach::epoch) order.block_size = streams.size();
  if (loader.reach == shuffle_reach::shard) {
    order.block_size = 1;
    for (std::size_t s = 0; s < streams.count(); ++s)
      for (auto const samples : streams.set(s).shard_samples())
        order.block_size = std::max(order.block_size, samples);
  }
  return order;
}

document_separator separator_of(loader_config const& loader) {
  using side = document_separator::side;
  if (loader.eos_token_id) return {side::ends_document, *loader.eos_token_id};
  if (loader.bos_token_id) return {side::begins_document, *loader.bos_token_id};
  return {};
}

training_batches::training_batches(model_config const& model, data_config const& data,
                                   execution_config const& execution, int rank, int ranks,
                                   std::shared_ptr<data::shard_cache> const& cache)
    : streams_(open_streams(data.train_loader, model.vocab_size, cache)),
      order_(order_of(data.train_loader, streams_)),
      global_batch_(data.global_train_batch_size),
      share_(share_of(data, execution, rank, ranks)),
      separator_(separator_of(data.train_loader)),
      predownload_(static_cast<std::uint64_t>(data.train_loader.predownload.value_or(0))) {
  index stored_samples = 0;
  for (std::size_t s = 0; s < streams_.count(); ++s)
    stored_samples += static_cast<index>(streams_.set(s).size());
  parallel::require(
      samples() >= global_batch_, streams_.name(), ": an epoch has ", samples(),
      " samples, fewer than one global batch of ", global_batch_,
      stored_samples >= global_batch_
          ? parallel::concat(", though there are ", stored_samples, "; raise train_loader.dataset.",
                             data.train_loader.epoch_size
                                 ? "epoch_size"
                                 : "streams.NAME.choose (or proportion, repeat)",
                             " or lower global_train_batch_size")
          : "; prepare more data or lower global_train_batch_size");
  batches_per_epoch_ = samples() / global_batch_;
  if (data.train_subset_num_batches > 0)
    batches_per_epoch_ = std::min<index>(batches_per_epoch_, data.train_subset_num_batches);
}

sequences training_batches::at(index batch) {
  if (!loader_ || batch != next_batch_) open(batch);
  auto part = loader_->next();
  parallel::require(part.has_value(), "the training data ended at batch ", batch);
  next_batch_ = batch + 1;
  return {std::move(part->ids), static_cast<index>(part->sequence_length), separator_};
}

double training_batches::waited_seconds() const {
  return waited_before_ +
         (loader_ ? std::chrono::duration<double>(loader_->wait_time()).count() : 0.0);
}

void training_batches::open(index batch) {
  waited_before_ = waited_seconds();
  loader_.emplace(
      streams_,
      data::batch_loader_options{
          .mode = data::loader_mode::train,
          .global_batch_size = static_cast<std::uint64_t>(global_batch_),
          .first_row = static_cast<std::uint64_t>(share_.begin),
          .last_row = static_cast<std::uint64_t>(share_.end),
          .order = order_,
          .start = {static_cast<std::uint64_t>(batch / batches_per_epoch_),
                    static_cast<std::uint64_t>(batch % batches_per_epoch_ * global_batch_)},
          .epoch_batches = static_cast<std::uint64_t>(batches_per_epoch_),
          .predownload = predownload_});
}

void evaluation_batches::require_room(data::token_streams const& streams, index device_batch,
                                      int ranks) {
  if (streams.remote_cache() == nullptr) return;
  data::batch_loader_options const options{.global_batch_size =
                                               static_cast<std::uint64_t>(device_batch * ranks)};
  streams.require_room(streams.order({.mode = data::shuffle::none}, 0),
                       data::batches_in_flight(options.prefetch) * options.global_batch_size,
                       false);
}

std::optional<sequences> evaluation_batches::next() {
  if (max_batches_ >= 0 && read_batches_ * stride_ >= max_batches_) return std::nullopt;
  auto part = loader_.next();
  if (!part) return std::nullopt;
  if (max_batches_ >= 0 && read_batches_ * stride_ + first_ >= max_batches_) part->ids.clear();
  ++read_batches_;
  return sequences(std::move(part->ids), static_cast<index>(part->sequence_length), separator_);
}

}  // namespace mpt
