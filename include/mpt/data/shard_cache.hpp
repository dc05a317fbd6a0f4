// shard_cache: the shards of remote MDS sets, as far as they are needed, in folders on this
// machine.
//
// Each set has a folder, which holds its index.json and, for a while, its shards:
//
//   index.json, shard.00017.mds ...      whole, checked, not compressed
//   .streaming/locks                     its text is the set's address; byte n locks shard n
//   .streaming/17.part ...               shard 17 while it is downloaded
//
// A shard is read under a shared lock, and downloaded or removed under an exclusive one. So
// threads, processes, and machines that share the folder, download a shard once, and who finds the
// lock of a downloader that died goes on with its part. Whenever a shard is taken, its checksum is
// compared: one that has changed on the disk is downloaded again. Where the files of all sets
// together would have more bytes than the limit, shards are removed that nobody reads: first those
// that are not expected, from the one whose reading began longest ago. A part counts with all bytes
// that it will have. On network disks whose lists of files lag behind, the limit is approximate.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <mpt/data/cached_set.hpp>
#include <mpt/data/locks.hpp>
#include <mpt/data/mds/mds_index.hpp>
#include <mpt/net/download.hpp>
#include <mpt/net/remote_folder.hpp>

namespace mpt::data {

/// A set of a cache.
struct remote_set {
  net::remote_folder remote;
  std::filesystem::path folder;
  net::retry_policy retries{};
  std::chrono::milliseconds idle_timeout{60'000};  ///< of a connection over which no byte comes
};

struct shard_cache_options {
  std::optional<std::uint64_t> limit{};  ///< bytes; nothing: no shard is removed
  /// Makes connections for one thread; `sleep` waits between attempts.
  std::function<net::network(net::retry_policy const&, net::http_client::sleeper sleep)> connect{};
  std::function<void(std::string const&)> note{};  ///< tells of waits; may be empty
  std::chrono::seconds room_timeout{600};          ///< while all shards of a full cache are read
};

/// A wait for a shard that was ended by a stop_token.
class shard_wait_stopped : public parallel::error {
 public:
  using error::error;
};

/// Shared by threads.
class shard_cache {
 public:
  /// Gets the indexes that are not in their folders. Throws where a folder holds what no cache put
  /// there.
  shard_cache(std::vector<remote_set> sets, shard_cache_options options);

  shard_cache(shard_cache&&) = delete;
  ~shard_cache() { stop_.request_stop(); }

  /// Whether `folder` has been made by a cache.
  [[nodiscard]] static bool is_cache(std::filesystem::path const& folder);

  /// Whether shards are removed when there are too many.
  [[nodiscard]] bool has_limit() const { return options_.limit.has_value(); }

  [[nodiscard]] std::size_t size() const { return sets_.size(); }

  /// The number of the set with this folder; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> find(std::filesystem::path const& folder) const;

  /// The address of the set whose cache a folder is.
  [[nodiscard]] static std::string address_of(std::filesystem::path const& folder);

  /// Waits until a shard is in its folder, or downloads it. It stays there while the result lives.
  /// When `stop` is requested, the wait ends in an error within about a second.
  [[nodiscard]] std::shared_ptr<void const> hold(shard_location location,
                                                 std::stop_token const& stop = {});

  /// The shards that will be read next, in this order: a thread downloads them as far as there is
  /// room, in place of those of the call before.
  void expect(std::vector<shard_location> locations);

  /// Throws, naming a limit that would do, where so many shards of each set (of all, in their
  /// order), but at most `max_count` of all sets together, do not fit in the limit; `reason` says
  /// why they are needed at once.
  void require_room(std::span<std::size_t const> counts, std::size_t max_count,
                    std::string const& reason) const;

 private:
  enum class urgency { ahead, at_once };
  enum class outcome { present, busy, no_room };

  /// A network and the thread that uses it.
  struct connection {
    std::stop_token stop{};  ///< ends its waits
    std::optional<net::network> network{};
  };

  struct set_state {
    remote_set source;
    std::vector<mds_shard> shards{};
    std::unordered_map<std::string, std::size_t> numbers{};  ///< of the shards, by file name
    std::vector<std::unique_ptr<connection>> idle_connections{};
  };

  /// A file in the cache that may be removed.
  struct candidate {
    shard_location location;
    std::uint64_t bytes = 0;
    bool is_part = false;  ///< of a download that is going on, or was ended
    std::filesystem::file_time_type last_use = std::filesystem::file_time_type::min();
    std::size_t position = std::numeric_limits<std::size_t>::max();  ///< among the expected shards
  };

  void open(set_state& set);
  void download_index(set_state& set);
  /// Takes over the shards of an index, checked; `location` names it in errors.
  void set_shards(set_state& set, std::vector<mds_shard> shards, std::string const& location);

  [[nodiscard]] outcome try_take(shard_location location, byte_lock& lock, urgency wanted,
                                 std::stop_token const& stop);
  [[nodiscard]] bool is_present(shard_location location) const;
  [[nodiscard]] bool make_room(shard_location location, urgency wanted,
                               std::stop_token const& stop);
  /// The locks under which the cache's files are counted.
  [[nodiscard]] std::vector<byte_lock> lock_room(std::stop_token const& stop);
  void wait_for(byte_lock& lock, std::filesystem::path const& folder, std::stop_token const& stop);
  [[nodiscard]] std::vector<candidate> list_files() const;
  [[nodiscard]] std::vector<candidate> in_order_of_removal(std::vector<candidate> files,
                                                           urgency wanted) const;
  [[nodiscard]] bool remove_unused(shard_location location) const;
  void download(shard_location location, std::stop_token const& stop);
  void get_file(set_state& set, mds_file const& file, std::filesystem::path const& target,
                std::stop_token const& stop);
  [[nodiscard]] net::http_response transfer(set_state& set, std::string const& name,
                                            std::filesystem::path const& target,
                                            net::expected_content const& expected,
                                            std::stop_token const& stop);
  void download_ahead(std::stop_token const& stop);
  /// Goes through the expected shards once; returns whether all of them are there.
  [[nodiscard]] bool download_expected(std::stop_token const& stop);
  /// Waits, but not longer than until `stop` is requested.
  void pause(std::chrono::milliseconds time, std::stop_token const& stop);

  /// Bytes that a shard takes while it is downloaded.
  [[nodiscard]] std::uint64_t cost(shard_location location) const;
  [[nodiscard]] std::filesystem::path path_of(shard_location location) const;
  [[nodiscard]] std::filesystem::path part_of(shard_location location) const;
  [[nodiscard]] byte_lock lock_of(shard_location location) const;

  std::vector<set_state> sets_;
  shard_cache_options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<shard_location> expected_;
  std::map<shard_location, std::size_t> positions_;  // of the expected shards
  std::uint64_t expected_version_ = 0;
  std::stop_source stop_;
  std::jthread downloader_;  // last member: it stops before the members that it uses are destroyed
};

}  // namespace mpt::data
