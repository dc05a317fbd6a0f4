// Sums of gradients by themselves: of several ranges in one call, as they are and rounded.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/gradient_sums.hpp>

namespace gradient_sums_test {

using parallel::bf16;
using parallel::reduction;
using sums = parallel::zero::gradient_sums<float>;
using numbers = std::vector<float>;

float given(int rank, std::size_t i) {
  return static_cast<float>((rank + 2) * 1000 + static_cast<int>(i) * 7 + 1) / 64.0F;
}

/// Of element `i` of three ranks, when `round` is done to what leaves a rank.
template <class Round>
float sum_of(std::size_t i, Round&& round) {
  return round(given(0, i)) + round(given(1, i)) + round(given(2, i));
}

TEST_CASE("ranges of several sizes, rounded on their way or not") {
  auto const as_it_is = [](float x) { return x; };
  auto const rounded = [](float x) { return static_cast<float>(bf16(x)); };
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    auto const me = static_cast<std::size_t>(comm.rank());
    parallel::host::stream s;
    std::vector<bf16> staging(15);
    for (auto const& how : {sums(), sums(std::span(staging))}) {
      CAPTURE(how.rounds());
      auto const expected = [&](std::size_t i) {
        return how.rounds() ? sum_of(i, rounded) : sum_of(i, as_it_is);
      };
      numbers a(6), b(9);
      auto const fill = [&] {
        for (std::size_t i = 0; i < 15; ++i) (i < 6 ? a[i] : b[i - 6]) = given(comm.rank(), i);
      };
      fill();
      auto const own_a = std::span(a).subspan(2 * me, 2);
      auto const own_b = std::span(b).subspan(3 * me, 3);
      std::vector<sums::shard> const shards{{own_a, a}, {own_b, b}};
      how.reduce_scatter(comm, s, shards, reduction::sum, parallel::call_site::current()).wait();
      for (std::size_t i = 0; i < 2; ++i) CHECK(own_a[i] == expected(2 * me + i));
      for (std::size_t i = 0; i < 3; ++i) CHECK(own_b[i] == expected(6 + 3 * me + i));

      fill();
      std::vector<sums::shard> const all{{a, a}, {b, b}};
      how.all_reduce(comm, s, all, reduction::sum, parallel::call_site::current()).wait();
      s.synchronize();
      for (std::size_t i = 0; i < 15; ++i) {
        float const sum = expected(i);
        CHECK((i < 6 ? a[i] : b[i - 6]) == (how.rounds() ? rounded(sum) : sum));
      }
    }
  });
}

}  // namespace gradient_sums_test
