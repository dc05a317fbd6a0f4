// unit_buffers: the buffers that hold the values and gradients that a ZeRO level shards while
// passes use them, and the order in which parts use the buffers in turn.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <parallel/train/step/step_plan.hpp>

namespace parallel::train {

/// Buffers that parts use one after another. Parts that need the same size alternate between as
/// many buffers as may be in use at once, or as there are such parts.
class buffer_turns {
 public:
  static constexpr int none = -1;

  void add(part p, index size, int count) {
    if (size == 0) return;
    auto& turn = turns_[size];
    if (std::ssize(turn.buffers) < count) turn.buffers.push_back(reserve(size));
    turn_of_[p] = &turn;
  }
  /// Adds a buffer that no two parts share.
  int reserve(index size) {
    sizes_.push_back(size);
    return static_cast<int>(sizes_.size()) - 1;
  }

  /// The buffer that the part will take next; none when the part needs none.
  [[nodiscard]] int peek(part p) const {
    auto const found = turn_of_.find(p);
    if (found == turn_of_.end()) return none;
    auto const& turn = *found->second;
    return turn.buffers[turn.next % turn.buffers.size()];
  }
  int take(part p) {
    int const number = peek(p);
    if (number != none) ++turn_of_.at(p)->next;
    return number;
  }

  /// Elements of every buffer.
  [[nodiscard]] std::vector<index> const& sizes() const { return sizes_; }

 private:
  struct shared_turn {
    std::vector<int> buffers = {};
    std::size_t next = 0;
  };
  std::map<index, shared_turn> turns_;  // by size; addresses stay
  std::map<part, shared_turn*> turn_of_;
  std::vector<index> sizes_;
};

/// The buffers of a rank, which all its plans share.
struct unit_buffers {
  buffer_turns values;
  buffer_turns gradients;
  /// By unit: its own buffer, when its values stay once unsharded.
  std::vector<int> own_buffers = {};

  unit_buffers(std::vector<planned_unit> const& units, step_choices const& choices) {
    std::map<part, std::pair<index, index>> sizes;  // of values and gradients
    for (auto const& unit : units) {
      bool const stays = unit.values > 0 && !choices.reshard_after_forward;
      own_buffers.push_back(stays ? values.reserve(unit.values) : buffer_turns::none);
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
