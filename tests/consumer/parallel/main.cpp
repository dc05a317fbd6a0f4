// A small trainer by hand: three ranks fit y = 3 x - 1, each on its share of the points; gradients
// and the count are summed over ranks and divided once.
#include <cmath>
#include <cstdio>
#include <span>

#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/stream.hpp>

int main() {
  constexpr int ranks = 3;
  constexpr parallel::index points = 10;
  double weights[ranks] = {};
  double biases[ranks] = {};

  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::stream exchanges;
    double w = 0.0;
    double b = 0.0;
    auto const own_points = parallel::data::share_of(points, comm.rank(), comm.size());
    for (int step = 0; step < 500; ++step) {
      double sums[3] = {};  // gradients of w and b, and how many points they are summed over
      for (auto i = own_points.begin; i < own_points.end; ++i) {
        double const x = static_cast<double>(i) / 5.0 - 1.0;
        double const difference = w * x + b - (3.0 * x - 1.0);
        sums[0] += 2.0 * difference * x;
        sums[1] += 2.0 * difference;
        sums[2] += 1.0;
      }
      comm.all_reduce(exchanges, std::span<double>(sums), parallel::reduction::sum).wait();
      w -= 0.3 * sums[0] / sums[2];
      b -= 0.3 * sums[1] / sums[2];
    }
    weights[comm.rank()] = w;
    biases[comm.rank()] = b;
  });

  std::printf("y = %.6f x + %.6f\n", weights[0], biases[0]);
  for (int rank = 0; rank < ranks; ++rank)
    if (std::abs(weights[rank] - 3.0) > 1e-6 || std::abs(biases[rank] + 1.0) > 1e-6) return 1;
  return 0;
}
