// Fingerprints of memory: they depend on every bit, but not on the order or the threads.
#include <doctest/doctest.h>

#include <set>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/checks/fingerprint.hpp>

namespace fingerprinter_test {

using parallel::bf16;
using parallel::train::fingerprint_kind;

/// The fingerprint of tensors of `sizes` elements in one buffer, with bit `bit` flipped (-1: none).
template <class T>
std::uint64_t bits_of(std::vector<std::size_t> const& sizes, std::ptrdiff_t bit) {
  parallel::host::device device;
  parallel::host::stream host_stream;
  parallel::train::fingerprinter<parallel::host::device> prints(device, sizes.size());
  std::size_t capacity = 0;
  for (auto const size : sizes) capacity += (size + 31) / 32 * 32;
  auto const memory = device.allocate_zeroed<T>(capacity);
  auto* elements = memory.data();
  for (auto const size : sizes) {
    for (std::size_t i = 0; i < size; ++i) {
      elements[i] = T(static_cast<float>(i + size) * 0.37F);
      if (bit >= 0 && static_cast<std::size_t>(bit) / (8 * sizeof(T)) == i)
        reinterpret_cast<unsigned char*>(elements + i)[bit / 8 % std::ptrdiff_t{sizeof(T)}] ^=
            static_cast<unsigned char>(1U << bit % 8);
    }
    bit -= static_cast<std::ptrdiff_t>(8 * sizeof(T) * size);
    prints.add(host_stream, {.unit = 3}, std::span<T const>(elements, size));
    elements += (size + 31) / 32 * 32;
  }
  host_stream.synchronize();
  auto const out = prints.take();
  REQUIRE(out.size() == 1);
  CHECK(out[0].subject.unit == 3);
  return out[0].bits;
}

TEST_CASE_TEMPLATE("fingerprinter: any flipped bit changes the fingerprint", T, float, bf16,
                   double) {
  std::vector<std::size_t> const sizes{7, 1, 33};  // the last words are partly filled
  std::set<std::uint64_t> seen{bits_of<T>(sizes, -1)};
  CHECK(bits_of<T>(sizes, -1) == *seen.begin());
  auto const bits = static_cast<std::ptrdiff_t>(8 * sizeof(T) * (7 + 1 + 33));
  for (std::ptrdiff_t bit = 0; bit < bits; ++bit) {
    CAPTURE(bit);
    CHECK_FALSE(bits_of<T>(sizes, bit) == *seen.begin());
  }
}

TEST_CASE("fingerprinter: exchanged tensors change the fingerprint, and subjects are separate") {
  CHECK(bits_of<float>({7, 1}, -1) != bits_of<float>({1, 7}, -1));
  parallel::host::device device;
  parallel::host::stream host_stream;
  parallel::train::fingerprinter<parallel::host::device> prints(device, 4);
  std::vector<std::uint64_t> const one{1, 2}, other{3};
  for (int round = 0; round < 2; ++round) {  // the first round must leave nothing behind
    prints.add(host_stream, {.unit = 1}, std::span(one));
    prints.add(host_stream, {.unit = 2}, std::span(other));
    prints.add(host_stream, {.kind = fingerprint_kind::states, .unit = 1}, std::span(other));
    prints.add(host_stream, {.unit = 4}, std::span<float const>());
    host_stream.synchronize();
    auto const out = prints.take();
    REQUIRE(out.size() == 3);
    CHECK(out[0].bits == out[1].bits);  // of the sums 3 and 3
    CHECK(out[1].subject.unit == 2);
    CHECK(out[2].subject.kind == fingerprint_kind::states);
  }
  CHECK(prints.take().empty());
}

}  // namespace fingerprinter_test
