// repository: a repository of the Hugging Face Hub, by its kind and name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace mpt::hub {

/// The kinds of repositories that are read.
enum class repository_kind { model, dataset };

struct repository {
  repository_kind kind = repository_kind::model;
  std::string name;  ///< "org/name", or "name" for some old ones

  /// The name of its folder in the cache: "models--org--name".
  [[nodiscard]] std::string folder() const;
  /// The path of its files' addresses: "/org/name" or "/datasets/org/name".
  [[nodiscard]] std::string web_path() const;
  /// The path of its listings: "/api/models/org/name".
  [[nodiscard]] std::string api_path() const;
};

/// Whether the hub can have a repository of this name: "name" or "org/name" of letters, digits and
/// "-._", where no part begins or ends with '-' or '.'.
[[nodiscard]] bool is_repository_name(std::string_view name);

/// Whether `text` is a name of the form org/name, has no ending of a file that programs read
/// (.yaml, .jsonl, .pt ...), and names nothing that is here.
[[nodiscard]] bool means_repository(std::string const& text);

/// The repository whose snapshot the folder is, by its place in the hub's cache
/// (…/models--org--name/snapshots/COMMIT); nothing for any other folder.
[[nodiscard]] std::optional<repository> repository_of_snapshot(std::filesystem::path const& folder);

/// The revision that leads to the snapshot of this folder in the hub's cache: "main" where main was
/// last seen at its commit, otherwise the commit.
[[nodiscard]] std::string revision_of_snapshot(std::filesystem::path const& folder);

/// The commit in a file of the cache, refs/REVISION; empty where it holds none.
[[nodiscard]] std::string commit_in_ref(std::filesystem::path const& ref);

/// Throws unless the hub can have a branch, tag or commit of this name.
void check_revision(std::string_view revision);

/// Whether `text` is the whole name of a commit: 40 hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);

}  // namespace mpt::hub
