// known_memory: what is known of ranges of addresses, and in what memory may differ between ranks
// of the tensor axis: what model_check (model_check.hpp) remembers of a model's passes.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include <parallel/core/parameter.hpp>

namespace parallel::train {

/// Of which rows of a microbatch a rank of the tensor axis counts the loss.
enum class loss_rows : std::uint8_t { unknown, none, own, all };

/// In what memory may differ between tensor ranks.
template <class T>
struct variation {
  bool rows = false;                            // each holds its share of the rows
  parameter_base<T> const* of_slice = nullptr;  // it comes of each one's slice of this parameter

  [[nodiscard]] bool any() const { return rows || of_slice != nullptr; }
  void add(variation const& other) {
    rows = rows || other.rows;
    if (of_slice == nullptr) of_slice = other.of_slice;
  }
};

/// What is known of ranges of addresses; nothing of most.
template <class Known>
class known_memory {
 public:
  void set(std::uintptr_t begin, std::uintptr_t end, Known const& what) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, what};
  }
  /// Calls f(known) for what overlaps [begin, end).
  template <class F>
  void for_each(std::uintptr_t begin, std::uintptr_t end, F&& f) const {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.first > begin) --at;
    for (; at != ranges_.end() && at->first < end; ++at) f(at->second.second);
  }

 private:
  /// Makes ranges end and begin here.
  void cut(std::uintptr_t here) {
    auto const next = ranges_.upper_bound(here);
    if (next == ranges_.begin()) return;
    auto& [end, what] = std::prev(next)->second;
    if (std::prev(next)->first == here || end <= here) return;
    ranges_[here] = {end, what};
    std::prev(ranges_.find(here))->second.first = here;
  }

  std::map<std::uintptr_t, std::pair<std::uintptr_t, Known>> ranges_;  // by begin: end
};

}  // namespace parallel::train
