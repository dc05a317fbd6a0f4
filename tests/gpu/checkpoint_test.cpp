// MPT trained on a GPU gives the same bits when it is saved and resumed, and with other options
// (graphs, weight gradients on a separate stream, optimizer states in the host's memory), on a
// deterministic device; and it takes the memory that was planned.
#include <doctest/doctest.h>


#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "parallel/support/files.hpp"
#include "parts/gpu_checkpoint.hpp"
#include "support/devices/gpu.hpp"
#include "support/training_run.hpp"

namespace gpu_checkpoint_test {

using device = parallel::cuda::device;

device make_gpu() { return device({.deterministic = true}); }
device make_gpu_with_graphs() { return device({.deterministic = true, .graphs = true}); }

TEST_CASE_TEMPLATE("training on a GPU: a resumed run equals an uninterrupted one bit for bit", T,
                   float, parallel::bf16) {
  if (!test::has_gpu()) return;
  test::temporary_folder const folder;
  test::training<T, device> uninterrupted(make_gpu());
  uninterrupted.train(3);
  bench::save_training(uninterrupted.step(), folder / "saved", uninterrupted.done_steps());
  auto const in_between = bench::checksum_of_training(uninterrupted.step());
  uninterrupted.train(8);
  test::training<T, device> resumed(make_gpu());
  resumed.set_done_steps(
      bench::load_training(resumed.step(), resumed.exchanges(), folder / "saved"));
  CHECK(resumed.done_steps() == 3);
  CHECK(bench::checksum_of_training(resumed.step()) == in_between);
  resumed.train(8);
  CHECK(bench::checksum_of_training(resumed.step()) ==
        bench::checksum_of_training(uninterrupted.step()));
  CHECK(bench::checksum_of_training(uninterrupted.step()) != in_between);
}

TEST_CASE_TEMPLATE("training on a GPU: every option of a step gives the same bits", T, float,
                   parallel::bf16) {
  if (!test::has_gpu()) return;
  test::check_ways_to_train<T>(make_gpu);
  test::check_ways_to_train<T>(make_gpu_with_graphs);
  test::training<T, device> plain(make_gpu()), graphs(make_gpu_with_graphs());
  plain.train(4);
  graphs.train(4);
  CHECK(graphs.numbers() == plain.numbers());
}

TEST_CASE_TEMPLATE("training on a GPU: a step takes the planned memory to the byte", T, float,
                   parallel::bf16) {
  if (test::has_gpu()) test::check_memory_of_training<T>(make_gpu);
}

}  // namespace gpu_checkpoint_test
