// A GPU whose compute stream can say where its time goes: every operation runs between two timing
// events. Products are told apart by their shape, so that a table has a rate for each.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/cuda.hpp>

namespace bench {

namespace cuda = parallel::cuda;
namespace ops = parallel::ops;

/// What one kind of operation took.
struct operation_time {
  double seconds = 0;
  long calls = 0;
  double operations = 0;  // floating-point, of products
};

class timed_stream : public cuda::stream {
 public:
  using cuda::stream::stream;

  void start() { measuring_ = true; }

  /// Blocks until everything enqueued has run; by operation, since `start`.
  [[nodiscard]] std::map<std::string, operation_time> stop() {
    measuring_ = false;
    synchronize();
    std::map<std::string, operation_time> out;
    for (auto const& one : marks_) {
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, one.begin.get(), one.end.get()),
                  "cudaEventElapsedTime");
      auto& sum = out[one.name];
      sum.seconds += 1e-3 * static_cast<double>(milliseconds);
      ++sum.calls;
      sum.operations += one.operations;
    }
    marks_.clear();
    return out;
  }

  template <class Enqueue>
  void pass_on(std::string name, double operations, Enqueue const& enqueue_it) {
    cuda::stream& inner = *this;
    if (!measuring_) return enqueue_it(inner);
    mark one{std::move(name), operations, make_event(), make_event()};
    cuda::check(cudaEventRecord(one.begin.get(), get()), "cudaEventRecord");
    enqueue_it(inner);
    cuda::check(cudaEventRecord(one.end.get(), get()), "cudaEventRecord");
    marks_.push_back(std::move(one));
  }

 private:
  using event = std::shared_ptr<CUevent_st>;
  struct mark {
    std::string name;
    double operations;
    event begin, end;
  };

  static event make_event() {
    cudaEvent_t made = nullptr;
    cuda::check(cudaEventCreate(&made), "cudaEventCreate");
    return {made, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); }};
  }

  bool measuring_ = false;
  std::vector<mark> marks_;
};

class timed_device : public cuda::device {
 public:
  using cuda::device::device;
  using stream_type = timed_stream;
};

// The operations of a training step. Each overload is a better match than the backend's own.

template <class C, class T>
void matmul_impl(timed_stream& s, parallel::matrix_view<C> c, parallel::matrix_view<T const> a,
                 parallel::matrix_view<T const> b, ops::matmul_options options,
                 parallel::matrix_view<std::type_identity_t<C> const> addend) {
  auto const m = c.extent(0), n = c.extent(1), k = a.extent(options.transpose_a ? 0 : 1);
  auto const name = parallel::concat("matmul ", m, " x ", n, " x ", k,
                                     options.transpose_a   ? " dW"
                                     : options.transpose_b ? ""
                                                           : " dX",
                                     options.accumulate ? " +=" : "");
  s.pass_on(name, 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
            [&](cuda::stream& inner) { matmul_impl(inner, c, a, b, options, addend); });
}

// They are found by their names, which only a macro can repeat.
#define BENCH_TIMED(name)                                                          \
  template <class... A>                                                            \
  void name##_impl(timed_stream& s, A const&... a) {                               \
    s.pass_on(#name, 0.0, [&](cuda::stream& inner) { name##_impl(inner, a...); }); \
  }
BENCH_TIMED(activation)
BENCH_TIMED(activation_backward)
BENCH_TIMED(adamw)
BENCH_TIMED(add)
BENCH_TIMED(add_bias)
BENCH_TIMED(add_bias_backward)
BENCH_TIMED(add_positions)
BENCH_TIMED(add_positions_backward)
BENCH_TIMED(attention)
BENCH_TIMED(attention_backward)
BENCH_TIMED(copy)
BENCH_TIMED(cross_entropy)
BENCH_TIMED(dropout)
BENCH_TIMED(embedding)
BENCH_TIMED(embedding_backward)
BENCH_TIMED(exact_squared_norm)
BENCH_TIMED(fill)
BENCH_TIMED(gradient_scale)
BENCH_TIMED(layer_norm)
BENCH_TIMED(layer_norm_backward_input)
BENCH_TIMED(layer_norm_backward_weight)
BENCH_TIMED(multiply)
BENCH_TIMED(scale)
BENCH_TIMED(squared_norm)
BENCH_TIMED(step_totals)
BENCH_TIMED(sum)
#undef BENCH_TIMED

}  // namespace bench

namespace parallel {
template <>
struct comm_stream_of<bench::timed_device, host::stream>
    : comm_stream_of<cuda::device, host::stream> {};
}  // namespace parallel
