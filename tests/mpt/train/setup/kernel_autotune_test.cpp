// Ranks that time kernels on their own agree on the same kernels, and a resumed run uses those of
// the run before; tested on fake streams of a GPU.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <mpt/train/setup/kernel_autotune.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/ops/cuda/tuning.hpp>

#include "parallel/support/files.hpp"

namespace kernel_autotune_test {

using parallel::cuda::attention_problem;
using parallel::cuda::attention_tuning;
using parallel::cuda::kernel_tuning;
using parallel::cuda::matmul_shape;
using parallel::cuda::matmul_tuning;

kernel_tuning tables(std::string const& made_for) {
  return {matmul_tuning(made_for), attention_tuning(made_for)};
}

/// A fake stream whose rank finds other kernels than the other ranks.
struct stream {
  int rank;
  std::string made_for = "a library on a device";
  kernel_tuning table = tables(made_for);
  bool is_tuning = false;
};
void tune_kernels(stream& s, bool is_tuning) { s.is_tuning = is_tuning; }
kernel_tuning tuned_kernels(stream& s) { return s.table; }
void use_kernels(stream& s, kernel_tuning table) { s.table = std::move(table); }

matmul_shape shape(int m) {
  return {
      .m = m, .n = 64, .k = 64, .input = parallel::dtype::bf16, .output = parallel::dtype::bf16};
}

attention_problem attention(int batch) { return {.batch = batch, .sequence = 8}; }

/// Tunes kernels on three ranks with two streams each and returns the ranks' tables. On the first
/// stream, all ranks tune shape 64 and the attention of batch 1, and rank r alone tunes shape
/// 128 + r and the attention of batch 2 + r. On the second stream, all tune shapes 64 and 256. Adds
/// the ranks that tuned to `tuned_ranks`; a rank with a table from `file` does not tune.
std::vector<kernel_tuning> run(std::filesystem::path const& file, std::string const& made_for,
                               int& tuned_ranks) {
  std::vector<kernel_tuning> out(3, tables("nothing"));
  std::mutex lock;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    parallel::any_communicator any(std::move(comm));
    parallel::host::stream exchanges;
    stream first_stream{.rank = rank, .made_for = made_for};
    stream second_stream{.rank = rank, .made_for = made_for};
    mpt::agree_on_kernels(std::vector{&first_stream, &second_stream}, any, exchanges, file, [&] {
      CHECK(first_stream.is_tuning);
      CHECK(second_stream.is_tuning);
      first_stream.table.products.set(shape(64), {.guess = 10 + rank});
      first_stream.table.products.set(shape(128 + rank), {.guess = rank});
      first_stream.table.attention.set(attention(1), rank);
      first_stream.table.attention.set(attention(2 + rank), rank);
      second_stream.table.products.set(shape(64), {.guess = 20 + rank});
      second_stream.table.products.set(shape(256), {.guess = 30});
      std::scoped_lock const guard(lock);
      ++tuned_ranks;
    });
    CHECK_FALSE(first_stream.is_tuning);
    CHECK_FALSE(second_stream.is_tuning);
    CHECK(second_stream.table == first_stream.table);
    std::scoped_lock const guard(lock);
    out[static_cast<std::size_t>(rank)] = first_stream.table;
  });
  return out;
}

TEST_CASE(
    "kernel autotune: the first rank that tunes a shape decides for all ranks and later runs") {
  test::temporary_folder const folder;
  auto const file = folder / "run" / "kernels.txt";
  int tuned_ranks = 0;
  auto const first = run(file, "a library on a device", tuned_ranks);
  CHECK(tuned_ranks == 3);
  auto expected = tables("a library on a device");
  expected.products.set(shape(64), {.guess = 10});
  expected.products.set(shape(256), {.guess = 30});
  expected.attention.set(attention(1), 0);
  for (int r = 0; r < 3; ++r) {
    expected.products.set(shape(128 + r), {.guess = r});
    expected.attention.set(attention(2 + r), r);
  }
  for (auto const& table : first) CHECK(table == expected);

  auto const resumed = run(file, "a library on a device", tuned_ranks);
  CHECK(tuned_ranks == 3);  // no rank tunes again
  CHECK(resumed == first);

  auto const other_device = run(file, "a library on another device", tuned_ranks);
  CHECK(tuned_ranks == 6);
  CHECK(other_device[0].products.made_for() == "a library on another device");
  CHECK(other_device[1] == other_device[0]);
}

TEST_CASE("kernel autotune: every rank refuses a damaged file in one sentence") {
  test::temporary_folder const folder;
  auto const file = folder / "kernels.txt";
  int tuned_ranks = 0;
  static_cast<void>(run(file, "a library on a device", tuned_ranks));
  auto text = test::read_all(file);
  auto const last = text.rfind("2\n");
  REQUIRE(last != std::string::npos);
  test::write_all(file, text.substr(0, last) + "two\n");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(run(file, "a library on a device", tuned_ranks)),
      doctest::Contains(
          "kernels.txt, line 11: the plan is 'two', expected an integer from 0 to 1000"),
      parallel::error);
  CHECK(tuned_ranks == 3);
}

}  // namespace kernel_autotune_test
