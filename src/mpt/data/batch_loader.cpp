#include <mpt/data/batch_loader.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <mpt/data/shard_cache.hpp>

namespace mpt::data {

parallel::matrix_view<std::int32_t const> token_batch::view() const {
  return {ids.data(),
          {static_cast<parallel::index>(rows), static_cast<parallel::index>(sequence_length)}};
}

batch_loader::batch_loader(token_streams streams, batch_loader_options const& options)
    : streams_(std::move(streams)), options_(options), next_(options.start) {
  parallel::require(
      options_.first_row <= options_.last_row && options_.last_row <= options_.global_batch_size,
      "rows [", options_.first_row, ", ", options_.last_row,
      ") are not a share of a global batch of ", options_.global_batch_size);
  parallel::require(options_.prefetch > 0, "a loader reads at least one batch ahead");
  bool const is_training = options_.mode == loader_mode::train;
  size_ = streams_.size();
  if (is_training && options_.epoch_batches > 0)
    size_ = std::min(size_, options_.epoch_batches * options_.global_batch_size);
  parallel::require(!is_training || size_ >= options_.global_batch_size, streams_.name(), ": has ",
                    size_, " samples, fewer than one global batch of ", options_.global_batch_size,
                    "; prepare more data or lower global_train_batch_size");
  parallel::require(options_.start.sample_in_epoch <= size_, streams_.name(), ": has ", size_,
                    " samples, a run cannot resume at sample ", options_.start.sample_in_epoch,
                    ": this is not the set it was trained on");
  if (!is_training) options_.order.mode = shuffle::none;
  skip_incomplete_batch(next_);
  reading_ = next_;
  order_.emplace(streams_.order(options_.order, reading_.epoch));
  streams_.reserve_cache(*order_, options_.max_cache_bytes);
  streams_.require_room(*order_, batches_in_flight(options_.prefetch) * options_.global_batch_size,
                        is_training);
  reader_ = std::jthread([this](std::stop_token const& stop) { read_ahead(stop); });
}

std::optional<token_batch> batch_loader::next() {
  std::unique_lock lock(mutex_);
  if (ready_.empty() && !has_ended_) {
    auto const begin = std::chrono::steady_clock::now();
    changed_.wait(lock, [&] { return !ready_.empty() || has_ended_; });
    wait_time_ += std::chrono::steady_clock::now() - begin;
  }
  if (ready_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  auto batch = std::move(ready_.front());
  ready_.pop_front();
  next_ = advanced(batch.position, batch.global_rows);
  lock.unlock();
  changed_.notify_all();
  return batch;
}

std::uint64_t batch_loader::batches_per_epoch() const {
  auto const batch_size = options_.global_batch_size;
  return options_.mode == loader_mode::train ? size_ / batch_size
                                             : (size_ + batch_size - 1) / batch_size;
}

void batch_loader::skip_incomplete_batch(loader_position& position) const {
  if (options_.mode == loader_mode::train &&
      size_ - position.sample_in_epoch < options_.global_batch_size)
    position = {position.epoch + 1, 0};
}

loader_position batch_loader::advanced(loader_position position, std::uint64_t rows) const {
  position.sample_in_epoch += rows;
  skip_incomplete_batch(position);
  return position;
}

void batch_loader::expect_shards(loader_position position) {
  auto const rows = std::max<std::uint64_t>(1, options_.last_row - options_.first_row);
  auto const ahead = options_.predownload == 0
                         ? 8
                         : std::min((options_.predownload + rows - 1) / rows, batches_per_epoch());
  if (!forecast_.end) {
    forecast_.end = position;
  } else if (++forecast_.read_batches >
             batches_in_flight(options_.prefetch)) {  // which other ranks may still read
    forecast_.batches.pop_front();
    --forecast_.read_batches;
  }
  auto& end = *forecast_.end;
  while (forecast_.batches.size() <= forecast_.read_batches + ahead &&
         end.sample_in_epoch < size_) {
    if (!forecast_.order || forecast_.epoch != end.epoch)
      forecast_.order.emplace(streams_.order(options_.order, forecast_.epoch = end.epoch));
    auto const count = std::min(options_.global_batch_size, size_ - end.sample_in_epoch);
    std::vector<sample_location> samples;
    for (std::uint64_t i = 0; i < count; ++i)
      samples.push_back((*forecast_.order)(end.sample_in_epoch + i));
    forecast_.batches.push_back(streams_.shards_of(samples));
    end = advanced(end, count);
  }
  std::vector<shard_location> shards;
  std::set<std::pair<std::size_t, std::size_t>> found;
  for (auto const& batch : forecast_.batches)
    for (auto const& location : batch)
      if (found.emplace(location.set, location.shard).second) shards.push_back(location);
  streams_.remote_cache()->expect(std::move(shards));
}

token_batch batch_loader::load(loader_position position, std::stop_token const& stop) {
  token_batch out;
  out.position = position;
  out.sequence_length = streams_.sequence_length();
  out.global_rows = std::min(options_.global_batch_size, size_ - position.sample_in_epoch);
  auto const last = std::min(options_.last_row, out.global_rows);
  auto const first = std::min(options_.first_row, last);
  out.rows = last - first;
  out.ids.resize(out.rows * out.sequence_length);
  std::vector<sample_location> samples;
  for (std::uint64_t row = 0; row < out.rows; ++row)
    samples.push_back((*order_)(position.sample_in_epoch + first + row));
  if (streams_.remote_cache() != nullptr) {
    expect_shards(position);
    streams_.close_others(samples);
  }
  for (std::uint64_t row = 0; row < out.rows; ++row)
    streams_.set(samples[row].stream)
        .sample(samples[row].sample,
                std::span(out.ids).subspan(row * out.sequence_length, out.sequence_length), stop);
  return out;
}

void batch_loader::read_ahead(std::stop_token const& stop) {
  try {
    std::uint64_t epoch = reading_.epoch;
    while (!stop.stop_requested() && reading_.sample_in_epoch < size_) {
      if (epoch != reading_.epoch)
        order_.emplace(streams_.order(options_.order, epoch = reading_.epoch));
      auto batch = load(reading_, stop);
      reading_ = advanced(reading_, batch.global_rows);
      std::unique_lock lock(mutex_);
      auto const cache = streams_.remote_cache();
      if (cache != nullptr && cache->has_limit() && ready_.size() >= options_.prefetch)
        streams_.close_others({});  // others may need the room
      if (!changed_.wait(lock, stop, [&] { return ready_.size() < options_.prefetch; })) return;
      ready_.push_back(std::move(batch));
      lock.unlock();
      changed_.notify_all();
    }
  } catch (...) {
    std::scoped_lock const lock(mutex_);
    failure_ = std::current_exception();
  }
  streams_.close_others({});
  {
    std::scoped_lock const lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

}  // namespace mpt::data
