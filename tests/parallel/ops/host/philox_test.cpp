#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/philox.hpp>
#include <parallel/ops/host/philox.hpp>

namespace host_philox_test {
namespace {

using parallel::philox;

TEST_CASE("host philox: every instruction set gives the random words of parallel::philox") {
  namespace simd = parallel::host::simd;
  philox const source(987654321987ULL, 3, 9);
  for (int const lanes : {4, 8, 16}) {
    if (lanes > simd::native_lanes()) continue;
    for (std::uint64_t const counter :
         {std::uint64_t{0}, std::uint64_t{0xfffffffdU}, std::uint64_t{0x123456789aULL}}) {
      std::vector<std::uint32_t> out(static_cast<std::size_t>(4 * lanes));
      simd::dispatch_to(
          lanes, [&, to = out.data() ](auto l) __attribute__((always_inline)) {
            parallel::host::detail::philox_block<l>(to, counter, source);
          });
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == source.bits(4 * counter + i));
    }
  }
}

}  // namespace
}  // namespace host_philox_test
