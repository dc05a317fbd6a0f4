// large_pages: advice to the system to use large pages for large allocations.
//
// The rows of one attention head are kilobytes apart. With pages of 4 KiB nearly every row needs
// another address translation, which on a virtual machine costs more than the arithmetic.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

#include <parallel/core/config.hpp>

namespace parallel::host {

/// The bytes of a large page.
inline constexpr std::size_t large_page = std::size_t{2} << 20;

/// Advises the system to use large pages for the part of [data, data + bytes) that consists of
/// whole large pages. The system may ignore it; only speed depends on it.
inline void prefer_large_pages(void* data, std::size_t bytes) noexcept {
  if (std::align(large_page, large_page, data, bytes) != nullptr)
    static_cast<void>(::madvise(data, bytes / large_page * large_page, MADV_HUGEPAGE));
}

}  // namespace parallel::host
