// local_checkpoints: the small checkpoint of checkpoints.hpp, saved on the disks of several nodes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/checkpoint/local/node_map.hpp>

#include "checkpoints.hpp"
#include "files.hpp"

namespace test {

/// The node name of each rank, for `nodes` nodes with equal numbers of ranks: "a", "a", "b", "b".
inline std::vector<std::string> node_names(int nodes, int ranks_of_each) {
  std::vector<std::string> out;
  for (int node = 0; node < nodes; ++node)
    for (int rank = 0; rank < ranks_of_each; ++rank)
      out.emplace_back(1, static_cast<char>('a' + node));
  return out;
}

/// A folder for each node, with the node's name, and the folder "shared".
class disks {
 public:
  [[nodiscard]] std::filesystem::path shared() const { return folder_ / "shared"; }
  [[nodiscard]] std::filesystem::path folder_of(std::string const& node) const {
    return folder_ / node;
  }

  /// Saves checkpoint ep0-ba{number} on nodes with these names. Each node has the files of its own
  /// ranks and of the previous node. The pointer in the shared folder names the checkpoint.
  void save(std::vector<std::string> const& names, index number,
            parallel::checkpoint::claim_id owner = {}) const {
    namespace pc = parallel::checkpoint;
    namespace fs = std::filesystem;
    auto const whole = folder_ / "whole";
    save_checkpoint(whole, number, static_cast<index>(names.size()), {}, owner);
    pc::checkpoint_id const id{0, number};
    pc::node_map const nodes(names);
    for (int rank = 0; rank < nodes.ranks(); ++rank)
      for (int const holder : {rank, nodes.receiver_of(rank)}) {
        auto const to = folder_of(names[static_cast<std::size_t>(holder)]) / id.text();
        fs::create_directories(to);
        for (auto const& entry : fs::directory_iterator(whole / id.text())) {
          auto const name = entry.path().filename().native();
          if (name == pc::manifest_name || name.starts_with(parallel::concat("rank-0000", rank)))
            fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
        }
      }
    fs::create_directories(shared());
    auto const text = pc::read_manifest_text(whole / id.text());
    pc::write_local_pointer(shared(), {id, owner.generation, pc::checksum(text)}, owner.token);
  }

 private:
  temporary_folder folder_;
};

}  // namespace test
