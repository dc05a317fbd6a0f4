// has_matrix_unit: whether this processor has a unit that multiplies matrices (AMX).
#pragma once

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <parallel/core/config.hpp>

namespace parallel::host {

/// Whether the processor has AMX for bf16 (it then has AVX-512 too) and Linux (from 5.16 on) lets
/// this process use it. The call requests that permission, which the whole process then has. With
/// the unit, a stream's own product is the fastest for bf16 and float: no engine is needed.
[[nodiscard]] inline bool has_matrix_unit() {
  static bool const granted = [] {  // a fact of the processor and the kernel: asked once
    constexpr unsigned tiles_and_bf16 = 1U << 24 | 1U << 22;
    constexpr int request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM, which older headers lack
    constexpr int tile_data = 18;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & tiles_and_bf16) == tiles_and_bf16 &&
           ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return granted;
}

}  // namespace parallel::host
