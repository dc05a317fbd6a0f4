#include "allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<std::size_t> calls, bytes, largest;

void* counted_allocate(std::size_t size, std::size_t alignment) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(size, std::memory_order_relaxed);
  std::size_t current = largest.load(std::memory_order_relaxed);
  while (current < size &&
         !largest.compare_exchange_weak(current, size, std::memory_order_relaxed)) {
  }
  std::size_t const rounded_size = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded_size == 0 ? alignment : rounded_size);
}

void* counted_new(std::size_t size, std::size_t alignment) {
  void* const data = counted_allocate(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

bench::allocations bench::take_allocations() {
  return {calls.exchange(0), bytes.exchange(0), largest.exchange(0)};
}

void* operator new(std::size_t size) { return counted_new(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_new(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return counted_allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
