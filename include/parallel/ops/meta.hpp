// Any operation on meta::stream. Nothing is computed: the stream notes the operands, counts the
// floating-point operations, and notes the scratch memory that a device would have to plan.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::meta {

/// Counts the operation's work and notes its memory, and computes nothing.
template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  require_computed(a);
  std::uint64_t flops = 0;
  if constexpr (requires { a.flops(); }) {
    flops = a.flops();
    s.count(flops, Arguments::name);
  }
  if constexpr (requires { a.operands(); })
    std::apply(
        [&](auto const&... operands) { s.observe(Arguments::name, flops, operands...); },
        a.operands());
  s.need_scratch(cuda::scratch_bytes(a, {.deterministic = s.options().deterministic}));
}

}  // namespace parallel::meta
