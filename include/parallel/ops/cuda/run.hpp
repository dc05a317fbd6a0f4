// Defines the function that ops/cuda.hpp declares, for the files that instantiate it
// (src/kernels): each operation has an `enqueue(stream, arguments)`.
#pragma once

#include <parallel/ops/cuda.hpp>

namespace parallel::cuda {

template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  enqueue(s, a);
}

}  // namespace parallel::cuda
