// listing: the files of a repository at one commit, as the hub lists them and as its cache notes
// them (trees/COMMIT.json).
//
// choose_files: which files of a repository the programs need.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mpt/net/download.hpp>

namespace mpt::hub {

/// A file of a repository.
struct listed_file {
  std::string path;  ///< in the repository, with '/'
  std::uint64_t size = 0;
  std::string git_id{};    ///< git's SHA-1 of the file, or of the note that stands for a large one
  std::string sha256{};    ///< of a large file, else empty
  std::string xet_hash{};  ///< noted in the cache for the hub's own programs

  /// The file's name among the cache's blobs, which is its ETag at the hub.
  [[nodiscard]] std::string const& blob() const { return sha256.empty() ? git_id : sha256; }
  [[nodiscard]] net::expected_content content() const;
};

using listing = std::vector<listed_file>;

/// Adds the files of one page of the hub's listing. Throws for a page that is not a listing: with
/// paths that lead out of a folder, or invalid ids.
void add_page(listing& files, nlohmann::json const& page, std::string_view source);

/// Throws where a whole listing has a file twice, or one below another.
void check_paths(listing const& files, std::string_view source);

/// The listing as the cache notes it, sorted by path.
[[nodiscard]] std::string tree_text(listing const& files);

/// Reads such a note; nothing where it is absent, of another version or damaged.
[[nodiscard]] std::optional<listing> read_tree(std::filesystem::path const& file);

/// Keeps the files that one of `include` matches (all if it is empty) and none of `exclude`. In a
/// pattern '*' stands for any text, also for '/', and a final '/' for all that is in the folder.
[[nodiscard]] listing matching(listing const& files, std::vector<std::string> const& include,
                               std::vector<std::string> const& exclude = {});

/// Whether a choice of files has the weights.
enum class weights { included, excluded };

/// The files of a model, or of a PEFT adapter, that the programs read: configurations, the
/// tokenizer and the weights, safetensors if there are any, else pytorch_model.bin. Other forms of
/// the weights, code and folders are left out.
[[nodiscard]] listing model_files(listing const& files, weights choice = weights::included);

/// The files of a tokenizer.
[[nodiscard]] listing tokenizer_files(listing const& files);

/// A file without which the model, or PEFT's adapter, in `folder` cannot be read; empty if it can:
/// its configuration and, if `choice` includes them, its weights with all their shards.
[[nodiscard]] std::string missing_model_file(std::filesystem::path const& folder, weights choice);

/// A file without which the tokenizer in `folder` cannot be read; empty if it can.
[[nodiscard]] std::string missing_tokenizer_file(std::filesystem::path const& folder);

}  // namespace mpt::hub
