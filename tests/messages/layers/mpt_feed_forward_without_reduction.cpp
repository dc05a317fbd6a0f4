// some of the columns (this rank's heads or hidden units) go into a layer that takes all of them
#include <mpt/model/block.hpp>

#include <parallel/ops/host.hpp>

using feed_forward =
    parallel::feed_forward<mpt::activation<float>, mpt::column_linear<float>, mpt::linear<float>>;

void run(parallel::context<parallel::host::stream>& c, parallel::matrix_view<float const> x) {
  mpt::branch<feed_forward> const wrong;
  decltype(wrong)::saved state;
  static_cast<void>(wrong.forward(c, x, state));
}
