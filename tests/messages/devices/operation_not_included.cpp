// the operations of this device are not declared; include them: <parallel/ops/host.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/matmul.hpp>

void run(parallel::host::stream& s, parallel::matrix_view<float> y,
         parallel::matrix_view<float const> x) {
  parallel::ops::matmul(s, y, x, x);
}
