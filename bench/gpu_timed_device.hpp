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

/// Any operation: a better match than the backend's own.
template <ops::operation_arguments Arguments>
void run_operation(timed_stream& s, Arguments const& a) {
  s.pass_on(Arguments::name, 0.0, [&](cuda::stream& inner) { run_operation(inner, a); });
}
template <class C, class T>
void run_operation(timed_stream& s, ops::matmul_arguments<C, T> const& a) {
  auto const& o = a.options;
  auto const name = parallel::concat("matmul ", a.c.extent(0), " x ", a.c.extent(1), " x ",
                                     a.a.extent(o.transpose_a ? 0 : 1),
                                     o.transpose_a   ? " dW"
                                     : o.transpose_b ? ""
                                                     : " dX",
                                     o.accumulate ? " +=" : "");
  s.pass_on(name, static_cast<double>(a.flops()),
            [&](cuda::stream& inner) { run_operation(inner, a); });
}
template <class T>
void run_operation(timed_stream& s, ops::affine_arguments<T> const& a) {
  auto const name = parallel::concat("matmul ", a.y.extent(0), " x ", a.y.extent(1), " x ",
                                     a.x.extent(1), " bias", a.addend.empty() ? "" : " +=");
  s.pass_on(name, static_cast<double>(a.flops()),
            [&](cuda::stream& inner) { run_operation(inner, a); });
}
template <class T>
void run_operation(timed_stream& s, ops::affine_backward_weight_arguments<T> const& a) {
  auto const name = parallel::concat("matmul ", a.dweight.extent(0), " x ", a.dweight.extent(1),
                                     " x ", a.dy.extent(0), " dW bias", a.accumulate ? " +=" : "");
  s.pass_on(name, static_cast<double>(a.flops()),
            [&](cuda::stream& inner) { run_operation(inner, a); });
}

}  // namespace bench

namespace parallel {
template <>
struct comm_stream_of<bench::timed_device, host::stream>
    : comm_stream_of<cuda::device, host::stream> {};
}  // namespace parallel
