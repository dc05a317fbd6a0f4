// known_memory: a map from ranges of addresses to the facts that model_check (model_check.hpp)
// knows about them. One such fact is how the contents may differ between ranks of the tensor axis.
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
  bool rows = false;  ///< each rank holds its share of the rows
  /// The parameter from whose slices the ranks compute the contents; null: none.
  parameter_base<T> const* sliced_parameter = nullptr;

  [[nodiscard]] bool is_possible() const { return rows || sliced_parameter != nullptr; }
  void add(variation const& other) {
    rows = rows || other.rows;
    if (sliced_parameter == nullptr) sliced_parameter = other.sliced_parameter;
  }
};

/// A map from ranges of addresses to a `Known`, the facts about a range. It contains only addresses
/// for which `set` was called.
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

  std::map<std::uintptr_t, std::pair<std::uintptr_t, Known>>
      ranges_;  // key: begin; value: end and facts
};

}  // namespace parallel::train
