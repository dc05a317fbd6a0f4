// Communication between ranks: collectives on threads, along the axes of a mesh, with checks that
// name mistakes.
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/mesh/mesh.hpp>

namespace axis = parallel::axis;

int main() {
  auto const shape =
      parallel::training_layout{}.with_degree<axis::shard>(2).with_degree<axis::tensor>(3);

  // [guide: mesh]
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& world) {
    parallel::mesh mesh(std::move(world), shape);    // 2 x 3 ranks
    auto tensor = mesh.split_along<axis::tensor>();  // this rank and its two neighbours
    parallel::host::stream exchanges;                // where communication is enqueued

    std::vector<float> x(4, static_cast<float>(mesh.world().rank()));
    auto sum = tensor.all_reduce(exchanges, std::span(x), parallel::reduction::sum);
    sum.wait();  // or sum.wait_on(another_stream)
    if (mesh.rank<axis::tensor>() == 0)
      std::printf("tensor group %d sums to %g\n", mesh.rank<axis::shard>(), x[0]);
  });
  // [guide: end]

  // [guide: checked]
  try {
    parallel::threads::run(2, [](parallel::threads::communicator& world) {
      parallel::checked comm(std::move(world));
      parallel::host::stream exchanges;
      std::vector<float> x(comm.rank() == 0 ? 5 : 3);  // a mistake
      comm.all_reduce(exchanges, std::span(x), parallel::reduction::sum).wait();
    });
  } catch (parallel::error const& e) {
    std::puts(e.what());  // ranks disagree in count ...: rank 0: all_reduce(sum) of 5 f32 at ...
    return 0;
  }
  // [guide: end]
  return 1;
}
