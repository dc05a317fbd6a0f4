#include "allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> calls, bytes, largest;

void* counted(std::size_t size, std::size_t alignment) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(size, std::memory_order_relaxed);
  std::size_t seen = largest.load(std::memory_order_relaxed);
  while (seen < size && !largest.compare_exchange_weak(seen, size, std::memory_order_relaxed)) {
  }
  std::size_t const whole = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
}

void* counted_or_throw(std::size_t size, std::size_t alignment) {
  void* const data = counted(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

bench::allocations bench::take_allocations() {
  return {calls.exchange(0), bytes.exchange(0), largest.exchange(0)};
}

void* operator new(std::size_t size) { return counted_or_throw(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
