// visit: calls a function with the C++ type of a dtype.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

/// Calls `f(std::type_identity<T>{})` with the C++ type of `type`.
template <class F>
void visit(dtype type, F&& f) {
  switch (type) {
    case dtype::u8: return f(std::type_identity<std::uint8_t>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    case dtype::i64: return f(std::type_identity<std::int64_t>{});
    case dtype::u64: return f(std::type_identity<std::uint64_t>{});
    case dtype::bf16: return f(std::type_identity<bf16>{});
    case dtype::f32: return f(std::type_identity<float>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: fail("communication of ", to_string(type), " elements is not supported");
  }
}

}  // namespace parallel::detail
