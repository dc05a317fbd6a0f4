// A consumer of nccl::communicator in a world of one rank. It instantiates the functions that a
// trainer uses: collectives, sub-communicators and streams of messages. It links with
// ParallelLM::nccl and ParallelLM::kernels, and needs a GPU to run.
#include <parallel/comm/nccl/communicator.hpp>
#include <parallel/ops/cuda.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "exchanges.hpp"

bool exchanges_agree() {
  parallel::nccl::communicator world(parallel::nccl::make_unique_id(), 0, 1);
  auto part = world.split(0, "part");
  parallel::cuda::device device;
  parallel::cuda::stream stream;
  std::vector<std::int32_t> const values{3, 1, 4, 1, 5};
  auto const in = device.allocate_zeroed<std::int32_t>(values.size());
  auto const out = device.allocate_zeroed<std::int32_t>(values.size());
  device.upload(in.span(), std::span<std::int32_t const>(values));
  using view = std::span<std::int32_t const>;
  world.all_reduce(stream, in.span(), parallel::reduction::sum).wait();
  part.all_reduce(stream, in.span(), parallel::reduction::tree_sum).wait();
  part.all_gather(stream, out.span(), view(in.span())).wait();
  world.barrier(stream).wait();
  std::vector<std::int32_t> got(values.size());
  device.download(std::span(got), view(out.span()));
  return got == values;
}
