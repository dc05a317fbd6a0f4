#include <mpt/data/shard_cache.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <numeric>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <mpt/data/byte_stream.hpp>
#include <mpt/data/hash.hpp>

namespace mpt::data {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr char const* work_name = ".streaming";
constexpr std::uint64_t index_byte = std::uint64_t{1} << 40;  // beyond the shards' numbers
constexpr std::uint64_t room_byte = index_byte + 1;
constexpr std::size_t unexpected = std::numeric_limits<std::size_t>::max();
constexpr char const* locks_name = "locks";
constexpr auto poll_interval = 10ms;
constexpr auto full_interval = 100ms;  // while there is no room, each look lists the folder

[[nodiscard]] fs::path work_folder(remote_set const& set) { return set.folder / work_name; }

[[nodiscard]] fs::path locks_of(remote_set const& set) { return work_folder(set) / locks_name; }

/// A clause of advice for files on the server that are not those of the index, which is kept.
[[nodiscard]] std::string advice_on_changes(remote_set const& set) {
  return "; if the set was written anew on the server, remove " + set.folder.native() +
         ", which keeps the old index.json";
}

/// The time since a wait began.
class waiting_time {
 public:
  [[nodiscard]] std::chrono::steady_clock::duration elapsed() const {
    return std::chrono::steady_clock::now() - begin_;
  }

  /// True once, after ten seconds.
  [[nodiscard]] bool is_noteworthy() { return elapsed() > 10s && !std::exchange(is_noted_, true); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool is_noted_ = false;
};

void require_running(std::stop_token const& stop, fs::path const& path) {
  if (stop.stop_requested())
    throw shard_wait_stopped(path.native() + ": was asked to wait for it no longer");
}

/// The checksum by which a file differs from its entry in the index, as a clause; empty if none
/// does.
[[nodiscard]] std::string file_difference(fs::path const& path, mds_file const& file) {
  if (!has_known_hash(file.hashes)) return {};
  return hash_difference(file.hashes, parallel::read_text_file(path, file.bytes));
}

/// Decompresses `from` to `to`, which will have `bytes` bytes.
void unpack(fs::path const& from, compression kind, fs::path const& to, std::uint64_t bytes) {
  byte_stream packed(from, kind);
  parallel::output_file const out(to, parallel::output_file::existing::replace);
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t written = 0;
  while (auto const count = packed.read(block.data(), block.size())) {
    parallel::require(count <= bytes - written, from.native(), ": decompresses to more than the ",
                      bytes, " bytes that index.json says");
    out.write(written, std::as_bytes(std::span(block.data(), count)));
    written += count;
  }
  parallel::require(written == bytes, from.native(), ": decompresses to ", written,
                    " bytes, index.json says ", bytes);
  out.sync();
}

[[nodiscard]] compression compression_named(std::string const& name) {
  if (name.starts_with("zstd")) return compression::zstd;
  return name.starts_with("gz") ? compression::gzip : compression::none;
}

/// The number at the beginning of a file name; nothing if there is none.
[[nodiscard]] std::optional<std::size_t> leading_number(std::string const& name) {
  std::size_t number = 0;
  auto const [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (problem != std::errc() || end == name.data() + name.size() || *end != '.')
    return std::nullopt;
  return number;
}

}  // namespace

shard_cache::shard_cache(std::vector<remote_set> sets, shard_cache_options options)
    : options_(std::move(options)) {
  parallel::require(!sets.empty(), "a cache of no sets");
  for (auto& source : sets) {
    parallel::require(!find(source.folder), source.folder.native(),
                      ": is the folder of two streams; each needs one of its own");
    sets_.push_back({std::move(source)});
  }
  for (auto& set : sets_) open(set);
  downloader_ = std::jthread([this] { download_ahead(stop_.get_token()); });
}

bool shard_cache::is_cache(fs::path const& folder) {
  return parallel::files::exists(folder / work_name);
}

std::string shard_cache::address_of(fs::path const& folder) {
  return parallel::read_text_file(folder / work_name / locks_name, 65536);
}

std::optional<std::size_t> shard_cache::find(fs::path const& folder) const {
  for (std::size_t i = 0; i < sets_.size(); ++i)
    if (sets_[i].source.folder == folder) return i;
  return std::nullopt;
}

void shard_cache::open(set_state& set) {
  auto const& folder = set.source.folder;
  auto const address = set.source.remote.identity();
  if (!is_cache(folder)) {
    std::error_code absent;
    for (fs::directory_iterator entry(folder, absent); !absent && entry != fs::directory_iterator();
         entry.increment(absent))
      parallel::require(entry->path().filename() == work_name || is_cache(folder), folder.native(),
                        ": holds files already, and the shards of ", address,
                        " would be put and removed among them; name an empty folder, or one that "
                        "does not exist, as local");
  }
  auto const locks = locks_of(set.source);
  parallel::files::require_no_links(folder, locks);
  parallel::files::make_folders(work_folder(set.source));
  parallel::descriptor const created(
      ::open(locks.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (created.get() < 0) parallel::files::failure(locks, "cannot create this file of locks");
  byte_lock lock(locks, index_byte);
  wait_for(lock, folder, {});
  auto const noted = address_of(folder);
  parallel::require(noted.empty() || noted == address, folder.native(), ": holds shards of ", noted,
                    ", and is asked for those of ", address,
                    "; choose another folder as local, or remove this one");
  auto const index = folder / "index.json";
  if (noted.empty() || !parallel::files::exists(index)) {
    download_index(set);
  } else {
    auto const text = parallel::read_text_file(index, max_mds_index_bytes);
    set_shards(set, parse_mds_index(text, index.native()), index.native());
  }
}

void shard_cache::download_index(set_state& set) {
  auto const location = set.source.remote.displayed() + "/index.json";
  auto const target = work_folder(set.source) / "index.json";
  auto const response =
      transfer(set, "index.json", target, {.max_size = max_mds_index_bytes}, stop_.get_token());
  parallel::require(response.succeeded(), location, ": ", set.source.remote.explanation(response));
  auto const text = parallel::read_text_file(target, max_mds_index_bytes);
  set_shards(set, parse_mds_index(text, location), location);
  parallel::write_text_file(locks_of(set.source), set.source.remote.identity());
  parallel::files::rename(target, set.source.folder / "index.json");
}

void shard_cache::set_shards(set_state& set, std::vector<mds_shard> shards,
                             std::string const& location) {
  set.shards = std::move(shards);
  bool has_unknown_hashes = false;
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    auto const& shard = set.shards[i];
    auto const& name = shard.raw.basename;
    parallel::require(!name.starts_with('.') && name.find("/.") == std::string::npos, location,
                      ": shard ", i,
                      ": the name of its file, or of a folder of it, begins with "
                      "'.', as those of shards do not");
    parallel::require(name != "index.json", location, ": shard ", i,
                      " has the name of another file, ", name);
    auto const& compressed = shard.layout.compression;
    parallel::require(compressed.empty() || compression_named(compressed) != compression::none,
                      location, ": compression '", compressed,
                      "' is not supported; write the set with zstd, gz or none");
    set.numbers[name] = i;
    auto const bytes = cost({static_cast<std::size_t>(&set - sets_.data()), i});
    parallel::require(!options_.limit || bytes <= *options_.limit,
                      "cache_limit: ", options_.limit.value_or(0), " bytes are less than shard ", i,
                      " of ", location, " takes, ", bytes);
    auto const& hashes = shard.zip ? shard.zip->hashes : shard.raw.hashes;
    has_unknown_hashes = has_unknown_hashes || (!hashes.empty() && !has_known_hash(hashes));
  }
  if (has_unknown_hashes && options_.note)
    options_.note(set.source.remote.displayed() +
                  ": shards are checked by their sizes alone; their checksums are of kinds that "
                  "are not supported");
}

std::shared_ptr<void const> shard_cache::hold(shard_location location,
                                              std::stop_token const& stop) {
  auto lock = std::make_shared<byte_lock>(lock_of(location));
  waiting_time waited;
  waiting_time full;  // without room
  for (;;) {
    auto const found = try_take(location, *lock, urgency::at_once, stop);
    if (found == outcome::present) {
      std::error_code ignored;
      fs::last_write_time(path_of(location), fs::file_time_type::clock::now(), ignored);
      return lock;
    }
    if (found != outcome::no_room) full = {};
    parallel::require(full.elapsed() < options_.room_timeout,
                      "cache_limit: ", options_.limit.value_or(0),
                      " bytes are full of shards that are being read, and ",
                      path_of(location).native(), " is needed too; raise it by ", cost(location));
    if (waited.is_noteworthy() && options_.note)
      options_.note(fmt::format("waiting for {}: {}", path_of(location).native(),
                                found == outcome::busy ? "another thread or process downloads it"
                                                       : "the cache is full of shards in use"));
    require_running(stop, path_of(location));
    pause(found == outcome::busy ? poll_interval : full_interval, stop);
  }
}

void shard_cache::expect(std::vector<shard_location> locations) {
  {
    std::scoped_lock const lock(mutex_);
    if (locations == expected_) return;
    expected_ = std::move(locations);
    positions_.clear();
    for (std::size_t i = 0; i < expected_.size(); ++i) positions_.emplace(expected_[i], i);
    ++expected_version_;
  }
  changed_.notify_all();
}

void shard_cache::require_room(std::span<std::size_t const> counts, std::size_t max_count,
                               std::string const& reason) const {
  if (!options_.limit) return;
  std::vector<std::uint64_t> needed;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    std::vector<std::uint64_t> costs;
    for (std::size_t i = 0; i < sets_[s].shards.size(); ++i) costs.push_back(cost({s, i}));
    std::ranges::sort(costs, std::greater());
    costs.resize(std::min(counts[s], costs.size()));
    needed.insert(needed.end(), costs.begin(), costs.end());
  }
  std::ranges::sort(needed, std::greater());
  needed.resize(std::min(needed.size(), max_count));
  auto const bytes = std::accumulate(needed.begin(), needed.end(), std::uint64_t{0});
  parallel::require(bytes <= *options_.limit, "cache_limit: ", *options_.limit,
                    " bytes are too few: ", reason, " are read from up to ", needed.size(),
                    " shards at once, which take ", bytes,
                    " bytes; set it to that or more, or lower shuffle_block_size");
}

shard_cache::outcome shard_cache::try_take(shard_location location, byte_lock& lock, urgency wanted,
                                           std::stop_token const& stop) {
  if (!lock.try_shared()) return outcome::busy;
  if (is_present(location)) return outcome::present;
  lock.unlock();
  if (!lock.try_exclusive()) return outcome::busy;
  if (!is_present(location)) {
    if (options_.limit && !make_room(location, wanted, stop)) {
      lock.unlock();
      return outcome::no_room;
    }
    download(location, stop);
  }
  static_cast<void>(lock.try_shared());  // it succeeds: no one else has a lock
  return outcome::present;
}

bool shard_cache::is_present(shard_location location) const {
  auto const path = path_of(location);
  auto const& raw = sets_[location.set].shards[location.shard].raw;
  // network disks answer stat from memory, but not open
  parallel::descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct ::stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::uint64_t>(status.st_size) != raw.bytes)
    return false;
  return file_difference(path, raw).empty();  // else it is downloaded again
}

bool shard_cache::make_room(shard_location location, urgency wanted, std::stop_token const& stop) {
  auto const room = lock_room(stop);
  auto files = list_files();
  std::erase_if(files, [&](auto const& file) { return file.location == location; });
  auto total = cost(location);
  for (auto const& file : files) total += file.bytes;
  if (total > *options_.limit)
    for (auto const& file : in_order_of_removal(std::move(files), wanted)) {
      if (remove_unused(file.location)) total -= file.bytes;
      if (total <= *options_.limit) break;
    }
  if (total > *options_.limit) return false;
  auto const part = part_of(location);  // from now on it counts
  parallel::descriptor const created(
      ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (created.get() < 0) parallel::files::failure(part, "cannot create");
  return true;
}

std::vector<byte_lock> shard_cache::lock_room(std::stop_token const& stop) {
  std::vector<fs::path> folders;
  for (auto const& set : sets_) folders.push_back(set.source.folder);
  std::ranges::sort(folders);  // so that no two caches wait for each other
  std::vector<byte_lock> out;
  for (auto const& folder : folders) {
    out.emplace_back(folder / work_name / locks_name, room_byte);
    wait_for(out.back(), folder, stop);
  }
  return out;
}

void shard_cache::wait_for(byte_lock& lock, fs::path const& folder, std::stop_token const& stop) {
  for (waiting_time waited; !lock.try_exclusive(); pause(1ms, stop)) {
    require_running(stop, folder);
    if (waited.is_noteworthy() && options_.note)
      options_.note("waiting for another process, which changes the cache in " + folder.native());
  }
}

std::vector<shard_cache::candidate> shard_cache::list_files() const {
  std::vector<candidate> out;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    auto const& set = sets_[s];
    auto const& folder = set.source.folder;
    std::set<std::size_t> parts;
    for (auto const& path : parallel::files::list(work_folder(set.source)))
      if (auto const number = leading_number(path.filename().native());
          number && *number < set.shards.size())
        parts.insert(*number);
    std::error_code problem;
    for (auto const part : parts) out.push_back({{s, part}, cost({s, part}), true});
    fs::recursive_directory_iterator entry(folder, problem);
    for (fs::recursive_directory_iterator const end; !problem && entry != end;
         entry.increment(problem)) {
      if (entry->path().filename() == work_name) entry.disable_recursion_pending();
      auto const found = set.numbers.find(entry->path().lexically_relative(folder).native());
      if (found == set.numbers.end()) continue;
      out.push_back({{s, found->second}, set.shards[found->second].raw.bytes, false});
    }
    if (problem && problem != std::errc::no_such_file_or_directory)
      parallel::files::failure(folder, "cannot list this folder", problem.value());
  }
  return out;
}

std::vector<shard_cache::candidate> shard_cache::in_order_of_removal(std::vector<candidate> files,
                                                                     urgency wanted) const {
  {
    std::scoped_lock const lock(mutex_);
    for (auto& file : files)
      if (auto const found = positions_.find(file.location); found != positions_.end())
        file.position = found->second;
  }
  if (wanted == urgency::ahead)
    std::erase_if(files, [](auto const& file) { return file.position != unexpected; });
  for (auto& file : files) {
    std::error_code absent;
    if (!file.is_part) file.last_use = fs::last_write_time(path_of(file.location), absent);
  }
  std::ranges::sort(files, [](auto const& a, auto const& b) {
    return std::tuple(b.position, a.last_use) < std::tuple(a.position, b.last_use);
  });
  return files;
}

bool shard_cache::remove_unused(shard_location location) const {
  parallel::files::require_no_links(sets_[location.set].source.folder, path_of(location));
  auto lock = lock_of(location);
  if (!lock.try_exclusive()) return false;
  auto const remove = [](fs::path const& path) { static_cast<void>(::unlink(path.c_str())); };
  remove(path_of(location));
  for (char const* const ending : {"", ".incomplete", ".incomplete.etag", ".unpacked"}) {
    auto part = part_of(location);
    remove(part += ending);
  }
  return true;
}

void shard_cache::download(shard_location location, std::stop_token const& stop) {
  auto& set = sets_[location.set];
  auto const& shard = set.shards[location.shard];
  auto const target = path_of(location);
  auto const part = part_of(location);
  parallel::files::require_no_links(set.source.folder, target);
  parallel::files::make_folders(target.parent_path());
  get_file(set, shard.zip ? *shard.zip : shard.raw, part, stop);
  if (!shard.zip) {
    parallel::files::rename(part, target);
  } else {
    auto unpacked = part;
    unpacked += ".unpacked";
    unpack(part, compression_named(shard.layout.compression), unpacked, shard.raw.bytes);
    auto const difference = file_difference(unpacked, shard.raw);
    parallel::require(difference.empty(), set.source.remote.displayed(), "/", shard.zip->basename,
                      ": decompressed, its ", difference,
                      ": the set is damaged, or was written over; nothing of it was kept",
                      advice_on_changes(set.source));
    parallel::files::rename(unpacked, target);
    static_cast<void>(::unlink(part.c_str()));
  }
}

void shard_cache::get_file(set_state& set, mds_file const& file, fs::path const& target,
                           std::stop_token const& stop) {
  auto const address = set.source.remote.displayed() + "/" + file.basename;
  for (bool is_second = false;; is_second = true) {
    net::http_response response;
    try {
      response = transfer(set, file.basename, target, {.size = file.bytes}, stop);
    } catch (net::changed_file const& problem) {
      parallel::fail(std::string_view(problem.what()), advice_on_changes(set.source));
    } catch (net::connection_error const&) {
      require_running(stop, target);
      throw;
    }
    parallel::require(response.succeeded(), address, ": ", set.source.remote.explanation(response),
                      response.status == 404 ? advice_on_changes(set.source) : std::string());
    auto const difference = file_difference(target, file);
    if (difference.empty()) return;
    static_cast<void>(::unlink(target.c_str()));
    parallel::require(!is_second, address, ": ", difference,
                      ": the server or something between sends other bytes, or the set was written "
                      "over; nothing of it was kept",
                      advice_on_changes(set.source));
  }
}

net::http_response shard_cache::transfer(set_state& set, std::string const& name,
                                         fs::path const& target,
                                         net::expected_content const& expected,
                                         std::stop_token const& stop) {
  std::unique_ptr<connection> used;
  {
    std::scoped_lock const lock(mutex_);
    if (!set.idle_connections.empty()) {
      used = std::move(set.idle_connections.back());
      set.idle_connections.pop_back();
    }
  }
  if (used == nullptr) {
    used = std::make_unique<connection>();
    used->network.emplace(options_.connect(
        set.source.retries,
        [this, user = used.get()](std::chrono::milliseconds time) { pause(time, user->stop); }));
  }
  used->stop = stop;
  auto request = set.source.remote.request(name);
  request.timeouts.idle = set.source.idle_timeout;
  request.is_cancelled = [stop] { return stop.stop_requested(); };
  auto response = net::download(*used->network, request, target, expected);
  std::scoped_lock const lock(mutex_);
  set.idle_connections.push_back(std::move(used));
  return response;
}

void shard_cache::download_ahead(std::stop_token const& stop) {
  std::uint64_t version = 0;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      version = expected_version_;
    }
    bool is_complete = false;
    auto interval = 500ms;
    try {
      is_complete = download_expected(stop);
    } catch (std::exception const&) {  // the thread that needs the shard meets the same error
      interval = 5000ms;
    }
    std::unique_lock lock(mutex_);
    auto const is_changed = [&] { return expected_version_ != version; };
    if (is_complete)
      changed_.wait(lock, stop, is_changed);
    else
      changed_.wait_for(lock, stop, interval, is_changed);
  }
}

bool shard_cache::download_expected(std::stop_token const& stop) {
  std::vector<shard_location> locations;
  std::uint64_t version = 0;
  {
    std::scoped_lock const lock(mutex_);
    locations = expected_;
    version = expected_version_;
  }
  bool is_complete = true;
  for (auto const location : locations) {
    if (stop.stop_requested()) return false;
    if (parallel::files::exists(path_of(location))) continue;
    auto lock = lock_of(location);
    auto const found = try_take(location, lock, urgency::ahead, stop);
    if (found == outcome::no_room) return false;
    is_complete = is_complete && found == outcome::present;
    std::scoped_lock const guard(mutex_);
    if (expected_version_ != version) return false;
  }
  return is_complete;
}

void shard_cache::pause(std::chrono::milliseconds time, std::stop_token const& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, time, [] { return false; });
}

std::uint64_t shard_cache::cost(shard_location location) const {
  auto const& shard = sets_[location.set].shards[location.shard];
  return shard.raw.bytes + (shard.zip ? shard.zip->bytes : 0);
}

fs::path shard_cache::path_of(shard_location location) const {
  auto const& set = sets_[location.set];
  return set.source.folder / set.shards[location.shard].raw.basename;
}

fs::path shard_cache::part_of(shard_location location) const {
  return work_folder(sets_[location.set].source) / fmt::format("{}.part", location.shard);
}

byte_lock shard_cache::lock_of(shard_location location) const {
  return {locks_of(sets_[location.set].source), location.shard};
}

}  // namespace mpt::data
