// node_map: which ranks are on one node, and so share its own disk, and which node is the neighbour
// of which.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace parallel::checkpoint {

/// The ranks of each node; equal on every rank. Nodes are numbered from 0 in the order of their
/// first ranks. The neighbour of a node is the next one, of the last node the first.
class node_map {
 public:
  /// All ranks on one node.
  explicit node_map(int ranks)
      : node_map(std::vector<std::string>(static_cast<std::size_t>(ranks))) {}

  /// `names`: the name of each rank's node; ranks with equal names are on one. (gather_texts)
  explicit node_map(std::span<std::string const> names) {
    std::vector<std::string> seen;
    for (auto const& name : names) {
      auto const known = std::ranges::find(seen, name);
      auto const node = static_cast<std::size_t>(known - seen.begin());
      if (known == seen.end()) {
        seen.push_back(name);
        ranks_.emplace_back();
      }
      ranks_[node].push_back(static_cast<int>(nodes_.size()));
      nodes_.push_back(static_cast<int>(node));
    }
    require(!nodes_.empty(), "node_map: expected at least one rank");
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int node_of(int rank) const { return nodes_.at(static_cast<std::size_t>(rank)); }
  /// The ranks of a node, ascending.
  [[nodiscard]] std::vector<int> const& ranks_of(int node) const {
    return ranks_.at(static_cast<std::size_t>(node));
  }
  /// Whether the rank is the first of its node, which acts there for all.
  [[nodiscard]] bool is_first(int rank) const { return ranks_of(node_of(rank)).front() == rank; }

  /// The rank of the neighbour that `rank` sends copies to: the ranks of a node share the work
  /// evenly. With a single node: the rank itself.
  [[nodiscard]] int receiver_of(int rank) const {
    auto const& ranks_of_node = ranks_of(node_of(rank));
    auto const& next = ranks_of((node_of(rank) + 1) % nodes());
    auto const position =
        static_cast<std::size_t>(std::ranges::find(ranks_of_node, rank) - ranks_of_node.begin());
    return next[position % next.size()];
  }

  /// The ranks that send copies to `rank`, ascending.
  [[nodiscard]] std::vector<int> senders_to(int rank) const {
    std::vector<int> out;
    for (int const sender : ranks_of((node_of(rank) + nodes() - 1) % nodes()))
      if (receiver_of(sender) == rank) out.push_back(sender);
    return out;
  }

 private:
  std::vector<int> nodes_;               // by rank
  std::vector<std::vector<int>> ranks_;  // by node
};

/// The folder in which a rank's node keeps checkpoints.
struct local_folder {
  std::filesystem::path folder;  ///< on the node's own disk, used by this run alone
  node_map nodes;                ///< the same on every rank
  action_hook on_action = {};    ///< called before each action on that disk
};

}  // namespace parallel::checkpoint
