// Large pages for large memory: rows of one attention head are kilobytes apart, so with pages of
// 4 KiB nearly every row asks for another translation, which on a virtual machine costs more than
// the arithmetic on it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

#include <parallel/core/config.hpp>

namespace parallel::host {

inline constexpr std::size_t large_page = std::size_t{2} << 20;

/// Advises the system to back the whole large pages in [data, data + bytes) by such. A system that
/// does not want to goes on as before: nothing but speed depends on it.
inline void prefer_large_pages(void* data, std::size_t bytes) noexcept {
  if (std::align(large_page, large_page, data, bytes) != nullptr)
    static_cast<void>(::madvise(data, bytes / large_page * large_page, MADV_HUGEPAGE));
}

}  // namespace parallel::host
