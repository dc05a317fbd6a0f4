// flight_ring: the last calls of a rank, in memory of which a file is the image.
//
// What a process writes into a mapped file is the system's from that moment on, so it outlives the
// process however that ends: SIGKILL, out of memory, a segmentation fault. (Not a machine that
// loses power.) Recording costs what writing to memory costs. flight_report.hpp reads the files.
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
#include <string>
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

/// What has become of a call: enqueued; begun, or waiting for others; done.
enum class call_state : std::uint8_t { waiting, running, done };

/// A call as a ring holds it. Trivially copyable: it lies in files as it is.
struct flight_call {
  static constexpr auto none = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t number = none;  // of all calls of this rank; none: no call stands here
  std::int64_t since = 0;       // when it came into this state, in ns of the system's clock
  std::uint64_t group = 0;      // who takes part, and along which axis, as one number
  signature what;               // sequence: its place among the collectives of its group
  call_state now = call_state::waiting;
  std::array<std::uint8_t, 7> reserved = {};
};
static_assert(sizeof(flight_call) == 288 && std::is_trivially_copyable_v<flight_call>);

/// A number for the group of ranks world_rank(0), world_rank(1), … along an axis: the same on each.
template <class F = std::identity>
[[nodiscard]] std::uint64_t group_number(std::string_view axis, int ranks, F world_rank = {}) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  auto const add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  for (char const c : axis) add(static_cast<unsigned char>(c));
  for (int rank = 0; rank < ranks; ++rank) add(static_cast<std::uint64_t>(world_rank(rank)) + 256);
  return hash;
}

/// How a ring's file begins.
struct flight_header {
  static constexpr std::array<char, 8> flight_magic = {'P', 'L', 'F', 'L', 'I', 'G', 'H', 'T'};
  static constexpr std::uint64_t max_capacity = std::uint64_t{1} << 20;

  std::array<char, 8> magic = flight_magic;
  std::uint32_t version = 2;
  std::uint32_t call_bytes = sizeof(flight_call);
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::uint64_t capacity = 0;  // calls
  std::int64_t process = 0;
  std::array<char, 88> machine = {};  // its name, closed by a zero
  std::uint64_t groups = 0;  // of which this rank is one; those after the 64th are not told
  std::array<std::uint64_t, 64> group = {};
  std::uint64_t beats = 0;  // how often the process has said that it runs (heartbeat.hpp)
};
static_assert(sizeof(flight_header) == 656 && std::is_trivially_copyable_v<flight_header>);

/// Room for calls, in a file or in this process alone. Moves; does not copy.
class flight_ring {
 public:
  /// In this process alone.
  explicit flight_ring(std::size_t capacity) : own_(capacity), calls_(own_) {
    require(capacity >= 1, "flight_recorder: a capacity of 0 remembers nothing");
  }

  /// In the new file `path` of rank `rank` of `ranks`, in the place of what stood there; a folder
  /// for it is there. The room is reserved on the disk. Throws when it cannot be.
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
        own_(std::move(other.own_)),
        mapped_(std::exchange(other.mapped_, {})),
        header_(std::exchange(other.header_, nullptr)),
        calls_(std::exchange(other.calls_, {})) {}
  flight_ring& operator=(flight_ring&& other) noexcept {
    std::swap(path_, other.path_);
    own_.swap(other.own_);
    std::swap(mapped_, other.mapped_);
    std::swap(header_, other.header_);
    std::swap(calls_, other.calls_);
    return *this;
  }
  ~flight_ring() {
    if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  }

  [[nodiscard]] std::size_t capacity() const { return calls_.size(); }
  /// The place of call `number`.
  [[nodiscard]] flight_call& at(std::uint64_t number) { return calls_[number % capacity()]; }
  [[nodiscard]] flight_call const& at(std::uint64_t number) const {
    return calls_[number % capacity()];
  }
  /// The file; empty: there is none.
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Writes a call in its place, which holds none for whoever reads in between.
  void write(flight_call const& call) {
    auto& place = at(call.number);
    auto hidden = call;
    hidden.number = flight_call::none;
    std::atomic_ref(place.number).store(flight_call::none, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    place = hidden;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::atomic_ref(place.number).store(call.number, std::memory_order_relaxed);
  }

  /// Notes that this rank is one of `group`, so that it is missed where it makes no call.
  void join(std::uint64_t group) {
    if (header_ == nullptr || header_->groups == header_->group.size()) return;
    header_->group[header_->groups++] = group;
  }

  /// Says that the process runs, to those that read the file. `to_others`: to other machines too,
  /// for which the file's first page is flushed.
  void beat(bool to_others) const {
    if (header_ == nullptr) return;
    ++std::atomic_ref(header_->beats);
    if (to_others) static_cast<void>(::msync(header_, sizeof(flight_header), MS_SYNC));
  }

  /// Removes the file: of a run that ended well there is nothing to tell.
  void remove_file() const {
    if (!path_.empty()) static_cast<void>(::unlink(path_.c_str()));
  }

 private:
  std::filesystem::path path_;
  std::vector<flight_call> own_;
  std::span<std::byte> mapped_;
  flight_header* header_ = nullptr;  // in the mapping, if there is one
  std::span<flight_call> calls_;
};

/// The file of a rank's ring in a run's folder.
[[nodiscard]] inline std::filesystem::path flight_file(std::filesystem::path const& folder,
                                                       int rank) {
  return folder / concat("flight-rank", rank, ".ring");
}

/// Removes the rings in a run's folder of ranks from `first` on: those of an earlier run, which had
/// more ranks. Where that cannot be done they stay.
inline void remove_flights_from(std::filesystem::path const& folder, int first) {
  constexpr std::string_view begin = "flight-rank", end = ".ring";
  std::error_code stays;
  std::vector<std::filesystem::path> others;
  auto entry = std::filesystem::directory_iterator(folder, stays);
  for (; !stays && entry != std::filesystem::directory_iterator(); entry.increment(stays)) {
    auto const name = entry->path().filename().native();
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    auto const* const last = name.data() + name.size() - end.size();
    int rank = -1;
    auto const [at, problem] = std::from_chars(name.data() + begin.size(), last, rank);
    if (problem == std::errc() && at == last && rank >= first) others.push_back(entry->path());
  }
  for (auto const& other : others) std::filesystem::remove(other, stays);
}

}  // namespace parallel
