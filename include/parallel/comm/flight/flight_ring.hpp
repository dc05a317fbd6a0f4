// flight_ring: the last calls of a rank, in a ring buffer that can be mapped to a file.
//
// The system holds the data that a process has written into a mapped file, so the data survive any
// end of the process: SIGKILL, out of memory, a segmentation fault (but not a power failure of the
// machine). Recording costs as much as writing to memory. flight_report.hpp reads the files.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/machine_name.hpp>

namespace parallel {

/// The state of a call: enqueued; begun, perhaps waiting for other ranks; done.
enum class call_state : std::uint8_t { waiting, running, completed };

/// A call as it is stored in a ring. Trivially copyable, so that files hold it as it is.
struct flight_call {
  static constexpr auto none = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t number = none;   ///< among all calls of this rank; none: the entry holds no call
  std::int64_t state_since = 0;  ///< when the state was entered, in ns of the system's clock
  std::uint64_t group = 0;       ///< the ranks that take part and the axis (group_number)
  signature call_signature;      ///< its sequence: the number among the collectives of the group
  call_state state = call_state::waiting;
  std::array<std::uint8_t, 7> reserved = {};
};
static_assert(sizeof(flight_call) == 288 && std::is_trivially_copyable_v<flight_call>);

/// A number that identifies the group of ranks world_rank(0), world_rank(1), … along an axis; it is
/// the same on each rank.
template <class F = std::identity>
[[nodiscard]] std::uint64_t group_number(std::string_view axis, int ranks, F world_rank = {}) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  auto const add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  for (char const c : axis) add(static_cast<unsigned char>(c));
  for (int rank = 0; rank < ranks; ++rank) add(static_cast<std::uint64_t>(world_rank(rank)) + 256);
  return hash;
}

/// The header of a ring's file.
struct flight_header {
  static constexpr std::array<char, 8> flight_magic = {'P', 'L', 'F', 'L', 'I', 'G', 'H', 'T'};
  static constexpr std::uint64_t max_capacity = std::uint64_t{1} << 20;

  std::array<char, 8> magic = flight_magic;
  std::uint32_t version = 2;
  std::uint32_t call_bytes = sizeof(flight_call);
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::uint64_t capacity = 0;  ///< calls
  std::int64_t process = 0;
  std::array<char, 88> machine = {};  ///< its name, terminated by a zero
  std::uint64_t groups = 0;           ///< of which this rank is a member; at most 64 are stored
  std::array<std::uint64_t, 64> group = {};
  std::uint64_t beats = 0;  ///< incremented by the running process (heartbeat.hpp)
};
static_assert(sizeof(flight_header) == 656 && std::is_trivially_copyable_v<flight_header>);

/// A ring buffer of calls, in a mapped file or in memory of this process. Movable, not copyable.
class flight_ring {
 public:
  /// In memory of this process.
  explicit flight_ring(std::size_t capacity) : unmapped_(capacity), calls_(unmapped_) {
    require(capacity >= 1, "flight_recorder: a capacity of 0 remembers nothing");
  }

  /// In the new file `path` of rank `rank` of `ranks`, which replaces an older one; its folder must
  /// exist. Reserves the space on the disk. Throws when that is not possible.
  flight_ring(std::filesystem::path path, int rank, int ranks, std::size_t capacity = 1024)
      : path_(std::move(path)) {
    require(capacity >= 1 && capacity <= flight_header::max_capacity, path_.native(),
            ": expected room for 1 to ", flight_header::max_capacity, " calls, not ", capacity);
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) files::failure(path_, "cannot remove");
    descriptor const file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0) files::failure(path_, "cannot create");
    auto const bytes = sizeof(flight_header) + capacity * sizeof(flight_call);
    if (int const problem = ::posix_fallocate(file.get(), 0, static_cast<::off_t>(bytes));
        problem != 0) {
      static_cast<void>(::unlink(path_.c_str()));
      files::failure(path_, concat("cannot reserve ", bytes, " bytes"), problem);
    }
    auto* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
      int const problem = errno;
      static_cast<void>(::unlink(path_.c_str()));
      files::failure(path_, "cannot map into memory", problem);
    }
    mapped_ = {static_cast<std::byte*>(memory), bytes};
    header_ = new (memory)
        flight_header{.rank = rank, .ranks = ranks, .capacity = capacity, .process = ::getpid()};
    static_cast<void>(machine_name().copy(header_->machine.data(), header_->machine.size() - 1));
    auto* const calls = new (mapped_.data() + sizeof(flight_header)) flight_call[capacity];
    calls_ = {calls, capacity};
  }

  flight_ring(flight_ring&& other) noexcept
      : path_(std::exchange(other.path_, {})),
        unmapped_(std::move(other.unmapped_)),
        mapped_(std::exchange(other.mapped_, {})),
        header_(std::exchange(other.header_, nullptr)),
        calls_(std::exchange(other.calls_, {})) {}
  flight_ring& operator=(flight_ring&& other) noexcept {
    std::swap(path_, other.path_);
    unmapped_.swap(other.unmapped_);
    std::swap(mapped_, other.mapped_);
    std::swap(header_, other.header_);
    std::swap(calls_, other.calls_);
    return *this;
  }
  ~flight_ring() {
    if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  }

  [[nodiscard]] std::size_t capacity() const { return calls_.size(); }
  /// The entry that call `number` uses.
  [[nodiscard]] flight_call& entry(std::uint64_t number) { return calls_[number % capacity()]; }
  [[nodiscard]] flight_call const& entry(std::uint64_t number) const {
    return calls_[number % capacity()];
  }
  /// The path of the file; empty when there is none.
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Writes a call to its entry, which is marked as empty for concurrent readers meanwhile.
  void write(flight_call const& call) {
    auto& target = entry(call.number);
    auto hidden = call;
    hidden.number = flight_call::none;
    std::atomic_ref(target.number).store(flight_call::none, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    target = hidden;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::atomic_ref(target.number).store(call.number, std::memory_order_relaxed);
  }

  /// Notes that this rank is a member of `group`, so that a report can miss it there.
  void join(std::uint64_t group) {
    if (header_ == nullptr || header_->groups == header_->group.size()) return;
    header_->group[header_->groups++] = group;
  }

  /// Shows readers of the file that the process runs. `to_others` shows it to other machines too:
  /// the file's first page is flushed.
  void beat(bool to_others) const {
    if (header_ == nullptr) return;
    ++std::atomic_ref(header_->beats);
    if (to_others) static_cast<void>(::msync(header_, sizeof(flight_header), MS_SYNC));
  }

  /// Removes the file, which is not needed after a run that ended well.
  void remove_file() const {
    if (!path_.empty()) static_cast<void>(::unlink(path_.c_str()));
  }

 private:
  std::filesystem::path path_;
  std::vector<flight_call> unmapped_;
  std::span<std::byte> mapped_;
  flight_header* header_ = nullptr;  // in the mapping, if there is one
  std::span<flight_call> calls_;
};

/// The path of a rank's ring in a run's folder.
[[nodiscard]] inline std::filesystem::path flight_file(std::filesystem::path const& folder,
                                                       int rank) {
  return folder / concat("flight-rank", rank, ".ring");
}

/// Removes from a run's folder the rings of ranks `first` and above, which an earlier run with more
/// ranks has left. Files that cannot be removed stay.
inline void remove_flight_files(std::filesystem::path const& folder, int first) {
  constexpr std::string_view begin = "flight-rank", end = ".ring";
  std::error_code stays;
  std::vector<std::filesystem::path> old_files;
  auto entry = std::filesystem::directory_iterator(folder, stays);
  for (; !stays && entry != std::filesystem::directory_iterator(); entry.increment(stays)) {
    auto const name = entry->path().filename().native();
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    auto const* const last = name.data() + name.size() - end.size();
    int rank = -1;
    auto const [parsed_end, problem] = std::from_chars(name.data() + begin.size(), last, rank);
    if (problem == std::errc() && parsed_end == last && rank >= first)
      old_files.push_back(entry->path());
  }
  for (auto const& old_file : old_files) std::filesystem::remove(old_file, stays);
}

}  // namespace parallel
