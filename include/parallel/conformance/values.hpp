// values: deterministic inputs for tests of communicators, and their reduction by a serial loop in
// rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel::conformance {

/// Mixes the bits of a number.
[[nodiscard]] inline std::uint64_t hash(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The input of a rank at element `i`. Floats have mixed signs and magnitudes, so their sums depend
/// on the order.
template <class T>
[[nodiscard]] T value(int rank, std::size_t i) {
  auto const h = hash(static_cast<std::uint64_t>(rank) * 1000003ULL + i + 1);
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::byte>) {
    return static_cast<T>(h);
  } else {
    auto const scale = static_cast<float>(1ULL << (h % 23));
    auto const sign = (h >> 40) % 2 == 0 ? 1.0F : -1.0F;
    return static_cast<T>(sign * scale * (1.0F + static_cast<float>((h >> 8) % 8191) / 8191.0F));
  }
}

/// Elements [first, first + count) of a rank's input.
template <class T>
[[nodiscard]] std::vector<T> values(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value<T>(rank, first + i);
  return out;
}

/// The reference result, by a serial loop: ((x0 op x1) op x2) ..., rounded once.
template <class T>
[[nodiscard]] std::vector<T> combined(int ranks, std::size_t count, reduction combine_by,
                                      std::size_t first = 0) {
  using wide = accumulate_t<T>;
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = static_cast<wide>(value<T>(0, first + i));
    for (int r = 1; r < ranks; ++r) {
      auto const x = static_cast<wide>(value<T>(r, first + i));
      if (combine_by == reduction::sum) {
        if constexpr (std::is_integral_v<wide>)
          sum = static_cast<wide>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(x));
        else
          sum += x;
      } else if (combine_by == reduction::max ? x > sum : x < sum) {
        sum = x;
      }
    }
    out[i] = static_cast<T>(sum);
  }
  return out;
}

/// Throws `error`, naming the first element whose bits differ, unless all are equal.
template <class T>
void require_equal(std::vector<T> const& found, std::vector<T> const& expected, char const* subject,
                   int rank) {
  require(found.size() == expected.size(), subject, ": sizes differ");
  for (std::size_t i = 0; i < found.size(); ++i)
    require(std::memcmp(&found[i], &expected[i], sizeof(T)) == 0, subject, " of ", found.size(),
            " ", to_string(dtype_of<T>), ", rank ", rank, ": element ", i, " is wrong");
}

/// The message of the `error` that `f` throws.
template <class F>
[[nodiscard]] std::string message_of(F&& f) {
  try {
    f();
  } catch (error const& thrown) {
    return thrown.what();
  }
  return "nothing was thrown";
}

}  // namespace parallel::conformance
