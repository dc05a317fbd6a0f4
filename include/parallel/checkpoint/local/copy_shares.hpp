// copy_shares: decides which ranks copy which files, when each file is on the disks of several
// nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <parallel/checkpoint/local/node_map.hpp>

namespace parallel::checkpoint {

/// The files that each node copies; equal on every rank, so that all decide alike without
/// exchanges.
class copy_shares {
 public:
  /// `has[n][f]`: whether node n has file f, of `bytes[f]` bytes. `nodes` is borrowed.
  copy_shares(node_map const& nodes, std::vector<std::vector<bool>> has_file,
              std::vector<std::uint64_t> bytes)
      : nodes_(nodes), has_(std::move(has_file)), bytes_(std::move(bytes)) {}

  /// For each of `files` the rank that copies it: a rank of that node which has the file and has
  /// been given the fewest bytes so far; the node's ranks take turns. None: no node has it.
  [[nodiscard]] std::vector<std::optional<int>> share_out(
      std::span<std::size_t const> files) const {
    std::vector<std::uint64_t> work(has_.size());
    std::vector<std::size_t> counts(has_.size());
    std::vector<std::optional<int>> out;
    for (auto const file : files) {
      std::optional<std::size_t> best;
      for (std::size_t node = 0; node < has_.size(); ++node)
        if (has_[node].at(file) && (!best || work[node] < work[*best])) best = node;
      out.emplace_back();
      if (!best) continue;
      auto const& ranks = nodes_.ranks_of(static_cast<int>(*best));
      out.back() = ranks[counts[*best]++ % ranks.size()];
      work[*best] += bytes_.at(file);
    }
    return out;
  }

  /// Records that the file on the node of `rank` is damaged.
  void mark_damaged(int rank, std::size_t file) {
    has_[static_cast<std::size_t>(nodes_.node_of(rank))].at(file) = false;
  }

 private:
  node_map const& nodes_;
  std::vector<std::vector<bool>> has_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace parallel::checkpoint
