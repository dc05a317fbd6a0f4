// Sums of gradients: of several ranges in one call, in their own type and rounded.
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

float input_value(int rank, std::size_t i) {
  return static_cast<float>((rank + 2) * 1000 + static_cast<int>(i) * 7 + 1) / 64.0F;
}

/// The sum of element `i` over three ranks, where `round` is applied before values are sent.
template <class Round>
float sum_of(std::size_t i, Round&& round) {
  return round(input_value(0, i)) + round(input_value(1, i)) + round(input_value(2, i));
}

TEST_CASE("gradient sums: ranges of several sizes, with and without rounding") {
  auto const identity = [](float x) { return x; };
  auto const rounded = [](float x) { return static_cast<float>(bf16(x)); };
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    auto const own_rank = static_cast<std::size_t>(comm.rank());
    parallel::host::stream s;
    std::vector<bf16> staging(15);
    for (auto const& summation : {sums(), sums(std::span(staging))}) {
      CAPTURE(summation.rounds());
      auto const expected = [&](std::size_t i) {
        return summation.rounds() ? sum_of(i, rounded) : sum_of(i, identity);
      };
      numbers a(6), b(9);
      auto const fill = [&] {
        for (std::size_t i = 0; i < 15; ++i)
          (i < 6 ? a[i] : b[i - 6]) = input_value(comm.rank(), i);
      };
      fill();
      auto const shard_of_a = std::span(a).subspan(2 * own_rank, 2);
      auto const shard_of_b = std::span(b).subspan(3 * own_rank, 3);
      std::vector<sums::shard> const shards{{shard_of_a, a}, {shard_of_b, b}};
      summation.reduce_scatter(comm, s, shards, reduction::sum, parallel::call_site::current())
          .wait();
      for (std::size_t i = 0; i < 2; ++i) CHECK(shard_of_a[i] == expected(2 * own_rank + i));
      for (std::size_t i = 0; i < 3; ++i) CHECK(shard_of_b[i] == expected(6 + 3 * own_rank + i));

      fill();
      std::vector<sums::shard> const whole_ranges{{a, a}, {b, b}};
      summation.all_reduce(comm, s, whole_ranges, reduction::sum, parallel::call_site::current())
          .wait();
      s.synchronize();
      for (std::size_t i = 0; i < 15; ++i) {
        float const sum = expected(i);
        CHECK((i < 6 ? a[i] : b[i - 6]) == (summation.rounds() ? rounded(sum) : sum));
      }
    }
  });
}

}  // namespace gradient_sums_test
