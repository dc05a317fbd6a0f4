// known_memory: what is known about ranges of addresses, and how memory may differ between ranks of
// the tensor axis: what model_check (model_check.hpp) records about a model's passes.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include <parallel/core/parameter.hpp>

namespace parallel::train {

/// The rows of a microbatch whose loss a rank of the tensor axis counts.
enum class loss_rows : std::uint8_t { unknown, none, local, whole };

/// The ways in which the contents of memory may differ between tensor ranks.
template <class T>
struct variation {
  bool rows = false;  // each rank holds its share of the rows
  /// It is computed from each rank's slice of this parameter.
  parameter_base<T> const* of_slice = nullptr;

  [[nodiscard]] bool any() const { return rows || of_slice != nullptr; }
  void add(variation const& other) {
    rows = rows || other.rows;
    if (of_slice == nullptr) of_slice = other.of_slice;
  }
};

/// A map from ranges of addresses to a `Known`. Most addresses are not in it.
template <class Known>
class known_memory {
 public:
  void set(std::uintptr_t begin, std::uintptr_t end, Known const& known) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, known};
  }
  /// Calls f(known) for every range that overlaps [begin, end).
  template <class F>
  void for_each(std::uintptr_t begin, std::uintptr_t end, F&& f) const {
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.first > begin) --range;
    for (; range != ranges_.end() && range->first < end; ++range) f(range->second.second);
  }

 private:
  /// Splits the range that contains this address, so that one range ends and another begins at it.
  void cut(std::uintptr_t address) {
    auto const next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return;
    auto& [end, known] = std::prev(next)->second;
    if (std::prev(next)->first == address || end <= address) return;
    ranges_[address] = {end, known};
    std::prev(ranges_.find(address))->second.first = address;
  }

  std::map<std::uintptr_t, std::pair<std::uintptr_t, Known>> ranges_;  // by begin: end
};

}  // namespace parallel::train
