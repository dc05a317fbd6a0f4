// The library's words that the model is written in.
#pragma once

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/layer/context.hpp>

namespace parallel {
namespace ops {}
namespace train {}
namespace zero {}
namespace host {}
namespace meta {}
}  // namespace parallel

namespace mpt {

namespace ops = parallel::ops;
namespace train = parallel::train;
namespace zero = parallel::zero;
namespace host = parallel::host;
namespace meta = parallel::meta;

using parallel::accumulate_t;
using parallel::arena;
using parallel::bf16;
using parallel::buffer;
using parallel::concat;
using parallel::context;
using parallel::index;
using parallel::matrix_view;
using parallel::parameter;
using parallel::parameter_base;
using parallel::pass;
using parallel::require;
using parallel::shape;
using parallel::stream_id;
using parallel::tensor_view;
using parallel::vector_view;

}  // namespace mpt
