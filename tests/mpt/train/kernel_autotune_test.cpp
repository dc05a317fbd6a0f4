// Ranks that time kernels for themselves take the same ones in the end, and a resumed run takes
// those of before: on streams that play a GPU's.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <mpt/train/kernel_autotune.hpp>
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

/// Finds other kernels than its neighbours.
struct stream {
  int rank;
  std::string made_for = "a library on a device";
  kernel_tuning table = tables(made_for);
  bool on = false;
};
void tune_kernels(stream& s, bool on) { s.on = on; }
kernel_tuning tuned_kernels(stream& s) { return s.table; }
void use_kernels(stream& s, kernel_tuning table) { s.table = std::move(table); }

matmul_shape shape(int m) {
  return {
      .m = m, .n = 64, .k = 64, .input = parallel::dtype::bf16, .output = parallel::dtype::bf16};
}

attention_problem attention(int batch) { return {.batch = batch, .sequence = 8}; }

/// All ranks tune the attention of batch 1, rank r that of batch 2 + r too, and shape 64 on both of
/// their streams; rank r alone also meets shape 128 + r on the first, and all meet 256 on the
/// second. Returns their tables.
std::vector<kernel_tuning> run(std::filesystem::path const& file, std::string const& made_for,
                               int& tried) {
  std::vector<kernel_tuning> out(3, tables("nothing"));
  std::mutex lock;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    parallel::any_communicator any(std::move(comm));
    parallel::host::stream exchanges;
    stream s{.rank = rank, .made_for = made_for};
    stream beside{.rank = rank, .made_for = made_for};
    mpt::agree_on_kernels(std::vector{&s, &beside}, any, exchanges, file, [&] {
      CHECK(s.on);
      CHECK(beside.on);
      s.table.products.set(shape(64), {.guess = 10 + rank});
      s.table.products.set(shape(128 + rank), {.guess = rank});
      s.table.attention.set(attention(1), rank);
      s.table.attention.set(attention(2 + rank), rank);
      beside.table.products.set(shape(64), {.guess = 20 + rank});
      beside.table.products.set(shape(256), {.guess = 30});
      std::scoped_lock const guard(lock);
      ++tried;
    });
    CHECK_FALSE(s.on);
    CHECK_FALSE(beside.on);
    CHECK(beside.table == s.table);
    std::scoped_lock const guard(lock);
    out[static_cast<std::size_t>(rank)] = s.table;
  });
  return out;
}

TEST_CASE("the first rank that met a shape decides for all, and for the runs that follow") {
  test::temporary_folder const folder;
  auto const file = folder / "run" / "kernels.txt";
  int tried = 0;
  auto const first = run(file, "a library on a device", tried);
  CHECK(tried == 3);
  auto expected = tables("a library on a device");
  expected.products.set(shape(64), {.guess = 10});
  expected.products.set(shape(256), {.guess = 30});
  expected.attention.set(attention(1), 0);
  for (int r = 0; r < 3; ++r) {
    expected.products.set(shape(128 + r), {.guess = r});
    expected.attention.set(attention(2 + r), r);
  }
  for (auto const& table : first) CHECK(table == expected);

  auto const resumed = run(file, "a library on a device", tried);
  CHECK(tried == 3);  // nobody tried again
  CHECK(resumed == first);

  auto const elsewhere = run(file, "a library on another device", tried);
  CHECK(tried == 6);
  CHECK(elsewhere[0].products.made_for() == "a library on another device");
  CHECK(elsewhere[1] == elsewhere[0]);
}

TEST_CASE("a damaged file is refused in one sentence, on every rank") {
  test::temporary_folder const folder;
  auto const file = folder / "kernels.txt";
  int tried = 0;
  static_cast<void>(run(file, "a library on a device", tried));
  auto text = test::read_all(file);
  auto const last = text.rfind("2\n");
  REQUIRE(last != std::string::npos);
  test::write_all(file, text.substr(0, last) + "two\n");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(run(file, "a library on a device", tried)),
      doctest::Contains(
          "kernels.txt, line 11: the plan is 'two', expected an integer from 0 to 1000"),
      parallel::error);
  CHECK(tried == 3);
}

}  // namespace kernel_autotune_test
