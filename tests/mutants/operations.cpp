// The operations that fake_cuda/waits_test.cpp runs on fake GPUs, compiled with it: errors are
// tried without the libraries of tests.
#include <parallel/ops/cuda/kernels/pointwise/clip.hpp>
#include <parallel/ops/cuda/kernels/rows.hpp>
#include <parallel/ops/cuda/kernels/update/step_results.hpp>
#include <parallel/ops/cuda/pointwise/elementwise.cuh>
#include <parallel/ops/cuda/reduce.cuh>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

template void run_operation(stream&, ops::add_arguments<float> const&);
template void run_operation(stream&, ops::clip_arguments<float> const&);
template void run_operation(stream&, ops::copy_arguments<float> const&);
template void run_operation(stream&, ops::exact_squared_norm_arguments<float> const&);
template void run_operation(stream&, ops::row_squared_norms_arguments<float> const&);
template void run_operation(stream&, ops::scale_arguments<float> const&);
template void run_operation(stream&, ops::scale_rows_arguments<float> const&);
template void run_operation(stream&, ops::squared_norm_arguments<float> const&);
template void run_operation(stream&, ops::step_totals_arguments<double> const&);

}  // namespace parallel::cuda
