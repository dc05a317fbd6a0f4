// A GPU whose compute stream measures its time by operation: every operation runs between two
// timing events. Products of different shapes count as different operations, each with its
// own rate.
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

/// The total time of one kind of operation.
struct operation_time {
  double seconds = 0;
  long calls = 0;
  double operations = 0;  // floating-point operations of products
};

class timed_stream : public cuda::stream {
 public:
  using cuda::stream::stream;

  void start() { is_measuring_ = true; }

  /// Blocks until everything enqueued has run; returns the times since `start` by operation.
  [[nodiscard]] std::map<std::string, operation_time> stop() {
    is_measuring_ = false;
    synchronize();
    std::map<std::string, operation_time> out;
    for (auto const& mark : marks_) {
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, mark.begin.get(), mark.end.get()),
                  "cudaEventElapsedTime");
      auto& sum = out[mark.name];
      sum.seconds += 1e-3 * static_cast<double>(milliseconds);
      ++sum.calls;
      sum.operations += mark.operations;
    }
    marks_.clear();
    return out;
  }

  template <class Enqueue>
  void run_timed(std::string name, double operations, Enqueue const& enqueue) {
    cuda::stream& inner = *this;
    if (!is_measuring_) return enqueue(inner);
    operation_mark interval{std::move(name), operations, make_event(), make_event()};
    cuda::check(cudaEventRecord(interval.begin.get(), get()), "cudaEventRecord");
    enqueue(inner);
    cuda::check(cudaEventRecord(interval.end.get(), get()), "cudaEventRecord");
    marks_.push_back(std::move(interval));
  }

 private:
  using event = std::shared_ptr<CUevent_st>;
  struct operation_mark {
    std::string name;
    double operations;
    event begin, end;
  };

  static event make_event() {
    cudaEvent_t created = nullptr;
    cuda::check(cudaEventCreate(&created), "cudaEventCreate");
    return {created, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); }};
  }

  bool is_measuring_ = false;
  std::vector<operation_mark> marks_;
};

class timed_device : public cuda::device {
 public:
  using cuda::device::device;
  using stream_type = timed_stream;
};

/// Matches any operation better than the backend's own overloads.
template <ops::operation_arguments Arguments>
void run_operation(timed_stream& s, Arguments const& a) {
  s.run_timed(Arguments::name, 0.0, [&](cuda::stream& inner) { run_operation(inner, a); });
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
  s.run_timed(name, static_cast<double>(a.flops()),
              [&](cuda::stream& inner) { run_operation(inner, a); });
}
template <class T>
void run_operation(timed_stream& s, ops::affine_arguments<T> const& a) {
  auto const name = parallel::concat("matmul ", a.y.extent(0), " x ", a.y.extent(1), " x ",
                                     a.x.extent(1), " bias", a.addend.empty() ? "" : " +=");
  s.run_timed(name, static_cast<double>(a.flops()),
              [&](cuda::stream& inner) { run_operation(inner, a); });
}
template <class T>
void run_operation(timed_stream& s, ops::affine_backward_weight_arguments<T> const& a) {
  auto const name = parallel::concat("matmul ", a.dweight.extent(0), " x ", a.dweight.extent(1),
                                     " x ", a.dy.extent(0), " dW bias", a.accumulate ? " +=" : "");
  s.run_timed(name, static_cast<double>(a.flops()),
              [&](cuda::stream& inner) { run_operation(inner, a); });
}

}  // namespace bench

namespace parallel {
template <>
struct comm_stream_of<bench::timed_device, host::stream>
    : comm_stream_of<cuda::device, host::stream> {};
}  // namespace parallel
