// sample_check: finds samples that are drawn twice, as where every rank shuffles by its
// own seed, from the numbers that a loader states.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/train/process_groups.hpp>

namespace parallel::train {

/// Remembers the samples of all ranks of the latest batches. The number of a sample is that of its
/// draw: in another epoch the same sample has another number, such as epoch * samples + sample.
class sample_check {
 public:
  /// Compares with at least this many earlier samples.
  explicit sample_check(std::size_t capacity = 100'000) : capacity_(capacity) {}

  /// Throws on every rank when a sample of this batch is drawn by two data-parallel ranks, or was
  /// drawn before. Collective over the ranks of `groups`, which exchange memory of `device`;
  /// blocks. Cost: two small exchanges, and a look-up for each sample of the global batch.
  template <class Device, class Comm, class Stream>
  void add(process_groups<Comm>& groups, Device const& device, Stream& exchanges,
           std::span<index const> samples, index batch) {
    auto const gather = [&](std::span<std::int64_t const> of_rank) {
      auto const ranks = static_cast<std::size_t>(groups.world().size());
      auto const sent = device.template allocate_shared<std::int64_t>(of_rank.size());
      auto const received = device.template allocate_shared<std::int64_t>(of_rank.size() * ranks);
      std::ranges::copy(of_rank, sent.data());
      groups.world()
          .all_gather(exchanges, received.span(), std::span<std::int64_t const>(sent.span()))
          .wait();
      return std::vector<std::int64_t>(received.data(), received.data() + received.size());
    };
    std::int64_t const counts[] = {groups.data_rank(), static_cast<std::int64_t>(samples.size())};
    auto const all_counts = gather(counts);
    std::int64_t most = 0;
    for (std::size_t i = 1; i < all_counts.size(); i += 2) most = std::max(most, all_counts[i]);
    std::vector<std::int64_t> padded_samples(samples.begin(), samples.end());
    padded_samples.resize(static_cast<std::size_t>(most));
    if (most == 0) return;
    auto const all_samples = gather(padded_samples);
    std::vector<bool> is_recorded(static_cast<std::size_t>(groups.data_ranks()));
    for (std::size_t rank = 0; rank < all_counts.size() / 2; ++rank) {
      // Ranks along the other axes of the mesh have the same samples as the first of them.
      auto const data_rank = all_counts[2 * rank];
      if (is_recorded[static_cast<std::size_t>(data_rank)]) continue;
      is_recorded[static_cast<std::size_t>(data_rank)] = true;
      auto const first = all_samples.begin() + static_cast<std::ptrdiff_t>(rank) * most;
      for (auto sample = first; sample != first + all_counts[2 * rank + 1]; ++sample)
        record(*sample, {batch, static_cast<int>(data_rank)});
    }
    while (order_.size() > capacity_) {
      drawn_.erase(order_.front());
      order_.pop_front();
    }
  }

 private:
  struct draw {
    index batch;
    int data_rank;
  };

  void record(std::int64_t sample, draw current) {
    auto const [earlier, is_new] = drawn_.emplace(sample, current);
    require(is_new, "sample ", sample, " is drawn by data-parallel rank ",
            earlier->second.data_rank, " for batch ", earlier->second.batch, " and by rank ",
            current.data_rank, " for batch ", current.batch,
            "; ranks take parts of one order of samples (data::share_of), so shuffle by the same "
            "seed on every rank");
    order_.push_back(sample);
  }

  std::size_t capacity_;
  std::unordered_map<std::int64_t, draw> drawn_;
  std::deque<std::int64_t> order_;
};

}  // namespace parallel::train
