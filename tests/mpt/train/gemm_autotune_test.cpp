// Ranks that time products for themselves take the same algorithms in the end, and a resumed run
// takes those of before: on streams that play a GPU's.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <mpt/train/gemm_autotune.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/ops/cuda/matmul_tuning.hpp>

#include "parallel/support/files.hpp"

namespace gemm_autotune_test {

using parallel::cuda::matmul_shape;
using parallel::cuda::matmul_tuning;

/// Finds another algorithm than its neighbours.
struct stream {
  int rank;
  std::string made_for = "a library on a device";
  matmul_tuning table{made_for};
  bool on = false;
};
void tune_products(stream& s, bool on) { s.on = on; }
matmul_tuning const& tuned_products(stream& s) { return s.table; }
void use_products(stream& s, matmul_tuning table) { s.table = std::move(table); }

matmul_shape shape(int m) {
  return {
      .m = m, .n = 64, .k = 64, .input = parallel::dtype::bf16, .output = parallel::dtype::bf16};
}

/// All ranks tune shape 64 on both of their streams; rank r alone also meets shape 128 + r on the
/// first, and all meet 256 on the second. Returns their tables.
std::vector<matmul_tuning> run(std::filesystem::path const& file, std::string const& made_for,
                               int& tried) {
  std::vector<matmul_tuning> out(3, matmul_tuning("nothing"));
  std::mutex lock;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    parallel::any_communicator any(std::move(comm));
    parallel::host::stream exchanges;
    stream s{.rank = rank, .made_for = made_for};
    stream beside{.rank = rank, .made_for = made_for};
    mpt::agree_on_products(std::vector{&s, &beside}, any, exchanges, file, [&] {
      CHECK(s.on);
      CHECK(beside.on);
      s.table.set(shape(64), {.guess = 10 + rank});
      s.table.set(shape(128 + rank), {.guess = rank});
      beside.table.set(shape(64), {.guess = 20 + rank});
      beside.table.set(shape(256), {.guess = 30});
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
  auto const file = folder / "run" / "products.txt";
  int tried = 0;
  auto const first = run(file, "a library on a device", tried);
  CHECK(tried == 3);
  matmul_tuning expected("a library on a device");
  expected.set(shape(64), {.guess = 10});
  expected.set(shape(256), {.guess = 30});
  for (int r = 0; r < 3; ++r) expected.set(shape(128 + r), {.guess = r});
  for (auto const& table : first) CHECK(table == expected);

  auto const resumed = run(file, "a library on a device", tried);
  CHECK(tried == 3);  // nobody tried again
  CHECK(resumed == first);

  auto const elsewhere = run(file, "a library on another device", tried);
  CHECK(tried == 6);
  CHECK(elsewhere[0].made_for() == "a library on another device");
  CHECK(elsewhere[1] == elsewhere[0]);
}

}  // namespace gemm_autotune_test
