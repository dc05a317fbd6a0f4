// unit_buffers: the buffers that hold the values and gradients that a ZeRO level shards while
// passes use them, and the order in which the parts of a model take the buffers.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/train/step/step_plan.hpp>

namespace parallel::train {

/// Buffers that the parts of a model take round robin. Parts that need the same size share a pool:
/// as many buffers as may be in use at the same time, or as there are such parts if they are fewer.
class round_robin_buffers {
 public:
  /// Adds a part that needs buffers of `size` elements, of which at most `count` are in use at the
  /// same time.
  void add(part p, index size, int count) {
    if (size == 0) return;
    auto& shared = pools_[size];
    if (std::ssize(shared.buffers) < count) shared.buffers.push_back(reserve(size));
    pool_of_part_[p] = &shared;
  }
  /// Adds a buffer that is in no pool.
  int reserve(index size) {
    sizes_.push_back(size);
    return static_cast<int>(sizes_.size()) - 1;
  }

  /// The buffer that the part will take next; none when the part needs none.
  [[nodiscard]] std::optional<int> peek(part p) const {
    auto const found = pool_of_part_.find(p);
    if (found == pool_of_part_.end()) return std::nullopt;
    auto const& shared = *found->second;
    return shared.buffers[shared.next % shared.buffers.size()];
  }
  std::optional<int> take(part p) {
    auto const number = peek(p);
    if (number) ++pool_of_part_.at(p)->next;
    return number;
  }

  /// Elements of every buffer.
  [[nodiscard]] std::vector<index> const& sizes() const { return sizes_; }

 private:
  struct pool {
    std::vector<int> buffers = {};
    std::size_t next = 0;
  };
  std::map<index, pool> pools_;  // by size; a map never moves its values
  std::map<part, pool*> pool_of_part_;
  std::vector<index> sizes_;
};

/// The buffers of a rank, which all its plans share.
struct unit_buffers {
  round_robin_buffers values;
  round_robin_buffers gradients;
  /// By unit: the buffer that it alone uses, if its values stay unsharded after the forward pass;
  /// otherwise none.
  std::vector<std::optional<int>> own_buffers = {};

  unit_buffers(std::vector<planned_unit> const& units, step_choices const& choices) {
    std::map<part, std::pair<index, index>> sizes;  // of values and gradients
    for (auto const& unit : units) {
      bool const stays = unit.values > 0 && !choices.reshard_after_forward;
      own_buffers.push_back(stays ? std::optional(values.reserve(unit.values)) : std::nullopt);
      for (part const p : unit.parts) {
        if (!stays) sizes[p].first += unit.values;
        sizes[p].second += unit.gradients;
      }
    }
    for (auto const& [p, size] : sizes) {
      values.add(p, size.first, std::max(2, choices.prefetch + 1));
      gradients.add(p, size.second, 2);
    }
  }
  unit_buffers(unit_buffers const&) = delete;
  unit_buffers& operator=(unit_buffers const&) = delete;
};

}  // namespace parallel::train
