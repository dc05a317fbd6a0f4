// fetch_repository: gets a repository of the Hugging Face Hub into the hub's own cache, where
// huggingface_hub and transformers find it too, and finds there what they got:
//
//   models--org--name/blobs/ETAG              the files by their checksums
//   models--org--name/refs/REVISION           the commit that a branch or tag was last seen at
//   models--org--name/snapshots/COMMIT/PATH   links to the blobs
//   models--org--name/trees/COMMIT.json       the listing of a commit
//   .locks/models--org--name/ETAG.lock        held by the process that downloads a file
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <mpt/hub/listing.hpp>
#include <mpt/hub/repository.hpp>
#include <mpt/hub/settings.hpp>
#include <mpt/net/download.hpp>

namespace mpt::hub {

/// Chooses the files that are needed among all of a repository.
using file_choice = std::function<listing(listing const& files)>;

/// The reports of a fetch while it works; each may be empty.
struct fetch_events {
  std::function<void(std::string const& sentence)> note{};
  /// Bytes that are there of the bytes in all, of `files` files, and the file that is being got.
  std::function<void(std::uint64_t bytes, std::uint64_t all_bytes, std::string_view path)>
      progress{};
};

/// The repository to be fetched, and which of its files.
struct wanted_repository {
  hub::repository repository;
  std::string revision = "main";
  file_choice choice{};       ///< empty: all files
  bool may_be_empty = false;  ///< whether the choice may be of no file
  /// Whether files that the cache has are compared with their checksums. One that differs is
  /// downloaded again.
  bool checks_contents = false;
  std::uint64_t largest_checked_file = ~std::uint64_t{0};  ///< in bytes; larger ones are taken
  /// Names a file that a snapshot lacks; returns an empty name where it lacks none. It is asked
  /// where the cache has no listing of the snapshot, since another program made it. Without it such
  /// a snapshot is taken as it is.
  std::function<std::string(std::filesystem::path const& snapshot)> missing_file{};
};

/// A model of this name with its weights, or without, and its tokenizer.
[[nodiscard]] wanted_repository wanted_model(std::string const& name, weights choice,
                                             std::string const& revision = "main");

/// A repository's files in the cache.
struct snapshot {
  std::filesystem::path folder;
  std::string commit;
  listing files;  ///< that were chosen; empty where no listing is cached
  std::uint64_t downloaded_bytes = 0;
};

/// The snapshot that the cache has of a repository whose choice of files is whole; nothing
/// otherwise.
[[nodiscard]] std::optional<snapshot> cached_repository(wanted_repository const& wanted,
                                                        settings const& where_from);

/// Makes the network when it is needed. It may throw: that there is none in this build.
using network_maker = std::function<net::network()>;

/// The snapshot of a repository, whose missing files are downloaded. Offline, or where the hub does
/// not answer (which is noted), what the cache has is taken if it is whole.
[[nodiscard]] snapshot fetch_repository(wanted_repository const& wanted, settings const& where_from,
                                        network_maker const& network,
                                        fetch_events const& events = {});

}  // namespace mpt::hub
