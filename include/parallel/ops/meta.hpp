// Any operation on meta::stream: nothing is computed; what it touches is noted, its floating-point
// operations are counted, and so is the scratch memory that it needs where a device has to plan it.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::meta {

template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  if constexpr (requires { a.operands(); })
    std::apply([&](auto const&... operands) { s.touch(operands...); }, a.operands());
  if constexpr (requires { a.flops(); }) s.count(a.flops(), Arguments::name);
  s.need_scratch(cuda::scratch_bytes(a, {.deterministic = s.options().deterministic}));
}

}  // namespace parallel::meta
