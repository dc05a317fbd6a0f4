// The memory of the fake devices: an address range for each device, and the allocations in it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

namespace fake_cuda {

/// Allocations on all devices and in pinned memory of the host. Thread-safe.
class memory {
 public:
  static constexpr int max_devices = 16;
  static constexpr int pinned = -1;  // the number that stands for pinned memory of the host

  struct allocation {
    int device = pinned;
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool is_pooled = false;  // allocated and freed in the order of a stream
  };

  memory() {
    constexpr std::size_t total_bytes = device_range * (max_devices + 1);
    void* const mapping =
        ::mmap(nullptr, total_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(mapping);
    reset();
  }

  /// Begins again with the first addresses. Throws std::logic_error while an allocation is alive.
  void reset() {
    std::scoped_lock const lock(mutex_);
    if (!allocations_.empty()) throw std::logic_error("fake CUDA: memory is still alive");
    next_.assign(max_devices + 1, 0);
  }

  /// Frees all allocations without looking at their contents.
  void release_all() {
    std::scoped_lock const lock(mutex_);
    for (auto const& [begin, one] : allocations_) revoke_access(one);
    allocations_.clear();
  }

  /// Allocates poisoned memory whose end, rounded up to 256 bytes, touches a page without rights.
  [[nodiscard]] void* allocate(int device, std::size_t bytes, bool is_pooled = false) {
    std::scoped_lock const lock(mutex_);
    std::size_t const aligned_bytes = (bytes + alignment - 1) / alignment * alignment;
    std::size_t const pages = page_bytes(bytes);
    auto& next = next_[static_cast<std::size_t>(device + 1)];
    if (next + pages + page > device_range)
      throw std::logic_error("fake CUDA: no addresses are left");
    std::byte* const first = base_ + static_cast<std::size_t>(device + 1) * device_range + next;
    next += pages + page;
    map_poison(first, pages);
    std::byte* const begin = first + pages - aligned_bytes;
    allocations_[begin] = {device, begin, bytes, is_pooled};
    return begin;
  }

  /// Frees the allocation that begins at `pointer`; from now on an access to it is a segmentation
  /// fault. Throws std::runtime_error when no living allocation begins there, or when bytes next to
  /// it were written.
  void release(void* pointer) {
    std::scoped_lock const lock(mutex_);
    auto const entry = allocations_.find(static_cast<std::byte*>(pointer));
    if (entry == allocations_.end()) throw std::runtime_error("what is freed was not allocated");
    allocation const old = entry->second;
    allocations_.erase(entry);
    std::byte* const end = end_of(old);
    bool const is_intact =
        is_poison(end - page_bytes(old.bytes), old.begin) && is_poison(old.begin + old.bytes, end);
    revoke_access(old);
    if (!is_intact) throw std::runtime_error("memory was written next to what was allocated");
  }

  /// The living allocation that contains `pointer`; one of 0 bytes if there is none.
  [[nodiscard]] allocation find(void const* pointer) const {
    std::scoped_lock const lock(mutex_);
    auto const* const address = static_cast<std::byte const*>(pointer);
    auto next = allocations_.upper_bound(address);
    if (next == allocations_.begin()) return {};
    allocation const& found = (--next)->second;
    return address < found.begin + found.bytes ? found : allocation{};
  }

  /// Whether the address lies in the range of a device, allocated or not.
  [[nodiscard]] bool is_device_address(void const* pointer) const {
    auto const* const address = static_cast<std::byte const*>(pointer);
    return address >= base_ + device_range && address < base_ + device_range * (max_devices + 1);
  }

  /// Bytes that are allocated on a device, or from its pool alone.
  [[nodiscard]] std::size_t used(int device, bool only_pooled = false) const {
    std::scoped_lock const lock(mutex_);
    std::size_t sum = 0;
    for (auto const& [begin, one] : allocations_)
      if (one.device == device && (one.is_pooled || !only_pooled)) sum += one.bytes;
    return sum;
  }
  [[nodiscard]] std::size_t allocation_count() const {
    std::scoped_lock const lock(mutex_);
    return allocations_.size();
  }

 private:
  // Addresses for each device, in bytes; ThreadSanitizer has room for all ranges together.
  static constexpr std::size_t device_range = std::size_t{1} << 35;
  static constexpr std::size_t page = 4096, alignment = 256;
  static constexpr std::size_t pattern = std::size_t{2} << 20;
  static constexpr int poison = 0xff;

  [[nodiscard]] static std::size_t page_bytes(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + alignment + page - 1) / page * page;
  }
  /// The end of the allocation's pages.
  [[nodiscard]] static std::byte* end_of(allocation const& one) {
    return one.begin + (one.bytes + alignment - 1) / alignment * alignment;
  }
  static void revoke_access(allocation const& one) {
    std::size_t const pages = page_bytes(one.bytes);
    map(end_of(one) - pages, pages, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
  }

  /// Maps pages of poison: copies of the same few pages, which cost nothing until they are written.
  void map_poison(std::byte* first, std::size_t pages) const {
    for (std::size_t offset = 0; offset < pages; offset += pattern)
      map(first + offset, std::min(pattern, pages - offset), PROT_READ | PROT_WRITE, 0,
          pattern_file_);
  }
  [[nodiscard]] static int make_pattern() {
    int const file = ::memfd_create("poison", MFD_CLOEXEC);
    std::vector<std::byte> const bytes(pattern, std::byte{poison});
    if (::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("fake CUDA: no memory file could be written");
    return file;
  }
  static void map(std::byte* first, std::size_t bytes, int rights, int extra_flags, int file) {
    if (::mmap(first, bytes, rights, MAP_PRIVATE | MAP_FIXED | extra_flags, file, 0) == MAP_FAILED)
      throw std::bad_alloc();
  }
  [[nodiscard]] static bool is_poison(std::byte const* from, std::byte const* to) {
    return std::all_of(from, to, [](std::byte b) { return b == std::byte{poison}; });
  }

  mutable std::mutex mutex_;
  int pattern_file_ = make_pattern();
  std::byte* base_ = nullptr;
  std::vector<std::size_t> next_;  // the next free offset by device, pinned memory first
  std::map<std::byte const*, allocation> allocations_;
};

}  // namespace fake_cuda
