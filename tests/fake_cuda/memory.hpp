// The memory of the fake devices: an address range each, and what lives in it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

namespace fake_cuda {

/// Thread-safe.
class memory {
 public:
  static constexpr int most_devices = 16;
  static constexpr int pinned = -1;  // memory of the host that devices reach

  struct piece {
    int device = pinned;
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool pooled = false;  // in the order of a stream
  };

  memory() {
    constexpr std::size_t all = range * (most_devices + 1);
    void* const got =
        ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(got);
    forget();
  }

  /// Fresh addresses again; nothing is alive.
  void forget() {
    std::scoped_lock const lock(mutex_);
    if (!pieces_.empty()) throw std::logic_error("fake CUDA: memory is still alive");
    next_.assign(most_devices + 1, 0);
  }

  /// Gives everything back unseen.
  void drop_all() {
    std::scoped_lock const lock(mutex_);
    for (auto const& [begin, one] : pieces_) withdraw(one);
    pieces_.clear();
  }

  /// Poisoned memory that ends at a page without rights, but for its alignment to 256 bytes.
  [[nodiscard]] void* take(int device, std::size_t bytes, bool pooled = false) {
    std::scoped_lock const lock(mutex_);
    std::size_t const asked = (bytes + alignment - 1) / alignment * alignment;
    std::size_t const pages = pages_of(bytes);
    auto& next = next_[static_cast<std::size_t>(device + 1)];
    if (next + pages + page > range) throw std::logic_error("fake CUDA: no addresses are left");
    std::byte* const first = base_ + static_cast<std::size_t>(device + 1) * range + next;
    next += pages + page;
    lay_out(first, pages);
    std::byte* const begin = first + pages - asked;
    pieces_[begin] = {device, begin, bytes, pooled};
    return begin;
  }

  /// From now on touching it is a segmentation fault. Throws std::runtime_error when nothing that
  /// is alive begins there, or something was written beside it.
  void give_back(void* where) {
    std::scoped_lock const lock(mutex_);
    auto const at = pieces_.find(static_cast<std::byte*>(where));
    if (at == pieces_.end()) throw std::runtime_error("what is freed was not allocated");
    piece const old = at->second;
    pieces_.erase(at);
    std::byte* const end = end_of(old);
    bool const whole =
        is_poison(end - pages_of(old.bytes), old.begin) && is_poison(old.begin + old.bytes, end);
    withdraw(old);
    if (!whole) throw std::runtime_error("memory was written beside what was allocated");
  }

  /// The living piece in which `where` lies; of no bytes: none.
  [[nodiscard]] piece find(void const* where) const {
    std::scoped_lock const lock(mutex_);
    auto const* const address = static_cast<std::byte const*>(where);
    auto at = pieces_.upper_bound(address);
    if (at == pieces_.begin()) return {};
    piece const& found = (--at)->second;
    return address < found.begin + found.bytes ? found : piece{};
  }

  /// Whether the address is of a device's range, alive or not.
  [[nodiscard]] bool is_of_device(void const* where) const {
    auto const* const address = static_cast<std::byte const*>(where);
    return address >= base_ + range && address < base_ + range * (most_devices + 1);
  }

  /// Bytes that live on a device, or of its pool alone.
  [[nodiscard]] std::size_t used(int device, bool pool_alone = false) const {
    std::scoped_lock const lock(mutex_);
    std::size_t sum = 0;
    for (auto const& [begin, one] : pieces_)
      if (one.device == device && (one.pooled || !pool_alone)) sum += one.bytes;
    return sum;
  }
  [[nodiscard]] std::size_t pieces() const {
    std::scoped_lock const lock(mutex_);
    return pieces_.size();
  }

 private:
  // Of addresses, a device: all together what ThreadSanitizer has room for.
  static constexpr std::size_t range = std::size_t{1} << 35;
  static constexpr std::size_t page = 4096, alignment = 256;
  static constexpr std::size_t pattern = std::size_t{2} << 20;
  static constexpr int poison = 0xff;

  [[nodiscard]] static std::size_t pages_of(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + alignment + page - 1) / page * page;
  }
  /// Of its pages.
  [[nodiscard]] static std::byte* end_of(piece const& one) {
    return one.begin + (one.bytes + alignment - 1) / alignment * alignment;
  }
  static void withdraw(piece const& one) {
    std::size_t const pages = pages_of(one.bytes);
    map(end_of(one) - pages, pages, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
  }

  /// Pages of poison: copies of the same few, which cost nothing until they are written.
  void lay_out(std::byte* first, std::size_t pages) const {
    for (std::size_t at = 0; at < pages; at += pattern)
      map(first + at, std::min(pattern, pages - at), PROT_READ | PROT_WRITE, 0, pattern_file_);
  }
  [[nodiscard]] static int make_pattern() {
    int const file = ::memfd_create("poison", MFD_CLOEXEC);
    std::vector<std::byte> const bytes(pattern, std::byte{poison});
    if (::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("fake CUDA: no memory file could be written");
    return file;
  }
  static void map(std::byte* first, std::size_t bytes, int rights, int more, int file) {
    if (::mmap(first, bytes, rights, MAP_PRIVATE | MAP_FIXED | more, file, 0) == MAP_FAILED)
      throw std::bad_alloc();
  }
  [[nodiscard]] static bool is_poison(std::byte const* from, std::byte const* to) {
    return std::all_of(from, to, [](std::byte b) { return b == std::byte{poison}; });
  }

  mutable std::mutex mutex_;
  int pattern_file_ = make_pattern();
  std::byte* base_ = nullptr;
  std::vector<std::size_t> next_;  // by device, pinned first
  std::map<std::byte const*, piece> pieces_;
};

}  // namespace fake_cuda
