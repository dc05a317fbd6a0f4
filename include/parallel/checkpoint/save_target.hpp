// Names of checkpoints: the batch of training, the root folder, and the name of the folder during a
// save.
//
// "ep0-ba12" is a checkpoint, "ep0-ba12.tmp-<token>" one being saved; `latest` is a link to one,
// made as "latest.tmp-<token>".
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

/// The time in training of a checkpoint; its folder is named "ep{epoch}-ba{batch}".
struct checkpoint_id {
  index epoch = 0;
  index batch = 0;  ///< since the beginning of training

  /// "ep0-ba12".
  [[nodiscard]] std::string text() const { return concat("ep", epoch, "-ba", batch); }
  /// The id that `name` is the text of.
  [[nodiscard]] static std::optional<checkpoint_id> parse(std::string_view name) {
    auto const number = [&](std::string_view mark) {
      index value = -1;
      if (!name.starts_with(mark)) return value;
      name.remove_prefix(mark.size());
      auto const [end, problem] = std::from_chars(name.data(), name.data() + name.size(), value);
      if (problem != std::errc()) return index{-1};
      name.remove_prefix(static_cast<std::size_t>(end - name.data()));
      return value;
    };
    auto const whole = name;
    checkpoint_id out;
    out.epoch = number("ep");
    out.batch = number("-ba");
    if (out.epoch < 0 || out.batch < 0 || out.text() != whole) return std::nullopt;
    return out;
  }
  /// Later batches are greater.
  friend std::strong_ordering operator<=>(checkpoint_id const& a, checkpoint_id const& b) {
    return std::pair(a.batch, a.epoch) <=> std::pair(b.batch, b.epoch);
  }
  friend bool operator==(checkpoint_id const&, checkpoint_id const&) = default;
};

/// Identifies one of the runs that have written into a folder, one after the other
/// (folder_claim.hpp).
struct claim_id {
  index generation = 0;     ///< from 1; 0: the folder is not claimed
  std::uint64_t token = 0;  ///< random, for this claim

  friend bool operator==(claim_id const&, claim_id const&) = default;
};

/// The destination of a checkpoint. All ranks hold equal ones.
struct save_target {
  std::filesystem::path root;  ///< the folder of checkpoints, shared by all ranks
  checkpoint_id id;
  std::uint64_t token = 0;  ///< part of the temporary name: any number that the ranks agree on
  index generation = 0;     ///< of the claim that has this token; 0: there is no claim

  [[nodiscard]] std::filesystem::path folder() const { return root / id.text(); }
  [[nodiscard]] std::filesystem::path temporary() const { return temporary_name(folder(), token); }
};

/// The file of a folder of checkpoints that names one on the nodes' own disks (local_pointer.hpp).
inline constexpr std::string_view local_pointer_name = "local.json";

/// Whether a folder of checkpoints has something of this name that is replaced by a rename.
[[nodiscard]] inline bool is_name_in_root(std::string_view name) {
  return checkpoint_id::parse(name).has_value() || name == "latest" || name == "best" ||
         name == local_pointer_name;
}

}  // namespace parallel::checkpoint
