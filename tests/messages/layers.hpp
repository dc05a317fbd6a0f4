// The layers that the snippets put together wrongly.
#pragma once

#include <parallel/comm/threads/communicator.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/linear.hpp>

namespace messages {

using communicator = parallel::threads::communicator;
using context = parallel::context<parallel::host::stream>;
using matrix = parallel::matrix_view<float const>;
using norm = parallel::norm<float>;
using gather = parallel::tensor::gather<float, communicator>;
using reduce = parallel::tensor::reduce<float, communicator>;
using column_linear = parallel::tensor::column_linear<float, communicator>;
using row_linear = parallel::tensor::row_linear<float, communicator>;
using sliced = parallel::tensor::sliced<parallel::linear<float>>;

}  // namespace messages
