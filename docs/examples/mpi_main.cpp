// Ranks that are MPI processes: the whole program. The argument "fail" lets rank 1 fail.
// [guide: mpi_main]
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>

#include <parallel/comm/mpi/communicator.hpp>

void train(parallel::mpi::communicator& world, bool fails) {
  parallel::require(!fails || world.rank() != 1, "rank 1: the disk is full");
  parallel::host::stream exchanges;
  std::int32_t sum = world.rank();
  world.all_reduce(exchanges, std::span(&sum, 1), parallel::reduction::sum).wait();
  if (world.rank() == 0) std::printf("the ranks' numbers sum to %d\n", static_cast<int>(sum));
}

int main(int arguments, char**) try {
  parallel::mpi::environment environment;          // outlives the communicators
  parallel::mpi::communicator world(environment);  // options: a deadline
  train(world, arguments > 1);
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
// [guide: end]
