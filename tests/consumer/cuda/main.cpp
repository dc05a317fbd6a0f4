// Compiled by g++ against declarations alone and linked with ParallelLM::kernels. Where there is
// a GPU it compares every activation and its gradient with the plain loops; elsewhere it ends at
// once.
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include <parallel/ops/cuda.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/reference.hpp>

#ifdef HAS_NCCL
#include "exchanges.hpp"
#endif

namespace {

template <class T>
struct managed {
  explicit managed(std::size_t count) : size(count) {
    void* memory = nullptr;
    parallel::cuda::check(cudaMallocManaged(&memory, count * sizeof(T), cudaMemAttachGlobal),
                          "cudaMallocManaged");
    data = static_cast<T*>(memory);
  }
  ~managed() { static_cast<void>(cudaFree(data)); }
  managed(managed const&) = delete;
  managed& operator=(managed const&) = delete;
  [[nodiscard]] std::span<T> span() const { return {data, size}; }

  T* data = nullptr;
  std::size_t size;
};

/// The largest difference, relative to the largest of 1 and the reference.
template <class T>
double difference(std::span<T const> a, std::span<T const> b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const x = static_cast<float>(a[i]);
    double const y = static_cast<float>(b[i]);
    worst = std::fmax(worst, std::fabs(x - y) / std::fmax(1.0, std::fabs(y)));
  }
  return worst;
}

template <class T>
bool agrees(parallel::ops::activation_kind kind, double tolerance) {
  constexpr std::size_t count = 100003;
  parallel::cuda::stream device;
  parallel::reference::stream host;
  managed<T> const x(count);
  managed<T> const dy(count);
  managed<T> const y(count);
  managed<T> const dx(count);
  for (std::size_t i = 0; i < count; ++i) {
    x.data[i] = static_cast<T>(12.0F * static_cast<float>(i) / static_cast<float>(count) - 6.0F);
    dy.data[i] = static_cast<T>(std::sin(static_cast<float>(i)));
  }
  parallel::ops::activation(device, y.span(), x.span(), kind);
  parallel::ops::activation_backward(device, dx.span(), x.span(), dy.span(), kind);
  device.record().wait();
  device.synchronize();

  std::vector<T> expected(count);
  parallel::ops::activation(host, std::span<T>(expected), x.span(), kind);
  double const forward = difference<T>(y.span(), expected);
  parallel::ops::activation_backward(host, std::span<T>(expected), x.span(), dy.span(), kind);
  double const backward = difference<T>(dx.span(), expected);
  std::printf("activation %d differs by %.2g, its gradient by %.2g\n", static_cast<int>(kind),
              forward, backward);
  return forward <= tolerance && backward <= tolerance;
}

}  // namespace

int main() {
#ifdef HAS_NCCL
  bool (*const exchanges)() = exchanges_agree;
#else
  bool (*const exchanges)() = [] { return true; };
#endif
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: linked, not run");
    return exchanges == nullptr;
  }
  using enum parallel::ops::activation_kind;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    if (!agrees<float>(kind, 1e-6) || !agrees<parallel::bf16>(kind, 1.0 / 128)) return 1;
  return exchanges() ? 0 : 1;
}
